"""The examples run as they are, against a real broker, and say what they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import penstock.testing

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS_MAX = 120

SAID = {
    "blocking_script.py": " lines since ",
    "columns.py": "100000 readings",
    "publish_and_subscribe.py": " orders billed",
    "spark_orders.py": "1000 large orders, 0 orders still to be looked at",
}


def test_none_is_forgotten() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAID)


@pytest.mark.usefixtures("fast_java")
@pytest.mark.parametrize("name", SAID)
def test_it_runs(name: str, tmp_path: Path) -> None:
    """R-SPK-1 and R-SPK-2 among them: a topic is a table, and Spark writes back."""
    with penstock.testing.broker() as address:
        run = subprocess.run(
            [sys.executable, str(EXAMPLES / name), address],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    assert SAID[name] in run.stdout
