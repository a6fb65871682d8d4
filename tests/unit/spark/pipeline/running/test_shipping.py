"""The package as executors get it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.spark.pipeline.running.shipping import pack


def test_the_zip_is_importable_and_has_what_executors_use(tmp_path: Path) -> None:
    archive = tmp_path / "penstock.zip"
    pack(str(archive))
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import penstock; "
        "import penstock.client.blocking.client, penstock.spark.source.options; "
        "print(penstock.client.blocking.client.__file__)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(archive)], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith(str(archive))
