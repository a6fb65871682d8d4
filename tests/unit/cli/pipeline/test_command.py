"""`penstock pipeline validate`, and what `run` says of a file that is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import make_app

WRONG = '[pipeline]\nname = "x"\n[sources.a]\ntopc = "a"\n[sinks.b]\nfrom = "a"\nconsole = true\n'
RIGHT = WRONG.replace("topc", "topic").replace('name = "x"', 'name = "x"\ncheckpoint = "c"')


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    (tmp_path / "wrong.toml").write_text(WRONG)
    return str(tmp_path / "wrong.toml")


def test_validate_says_what_is_wrong_with_line_and_key(wrong: str) -> None:
    result = CliRunner().invoke(make_app(), ["pipeline", "validate", wrong])
    assert result.exit_code == 1
    assert (
        f"error: {wrong}:4: sources.a.topc is no key of a source: did you mean topic?"
        in result.stderr
    )
    result = CliRunner().invoke(make_app(), ["pipeline", "validate", wrong, "--json"])
    assert result.exit_code == 1
    assert {"file": wrong, "line": 4, "key": "sources.a.topc"}.items() <= json.loads(result.stdout)[
        1
    ].items()


def test_validate_says_what_is_right(tmp_path: Path) -> None:
    (tmp_path / "right.toml").write_text(RIGHT)
    result = CliRunner().invoke(make_app(), ["pipeline", "validate", str(tmp_path / "right.toml")])
    assert result.exit_code == 0, result.stderr
    assert "right.toml is right: a stream, 1 source, 0 steps, 1 sink." in result.stderr
    flags = ["--set", "sources.a.end=latest", "--json"]
    result = CliRunner().invoke(
        make_app(), ["pipeline", "validate", str(tmp_path / "right.toml"), *flags]
    )
    assert (result.exit_code, result.stdout) == (0, "[]\n")
    (tmp_path / "without.toml").write_text(RIGHT.replace('checkpoint = "c"', ""))
    without = ["pipeline", "validate", str(tmp_path / "without.toml")]
    assert CliRunner().invoke(make_app(), without).exit_code == 1
    assert CliRunner().invoke(make_app(), [*without, "--checkpoint", "here"]).exit_code == 0


def test_run_does_not_start_spark_for_a_file_that_is_wrong(wrong: str) -> None:
    result = CliRunner().invoke(make_app(), ["pipeline", "run", wrong])
    assert result.exit_code == 1
    assert "did you mean topic?" in result.stderr


def test_help_needs_no_spark() -> None:
    """Nor does any other command: Spark is imported when it is run."""
    script = (
        "import sys; from penstock.cli.main import make_app; make_app(); "
        "assert not {'pyspark', 'pyarrow', 'py4j'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    for command in ("run", "validate", "archive", "replay", "inspect"):
        result = CliRunner().invoke(make_app(), ["pipeline", command, "--help"])
        assert result.exit_code == 0
        assert "Examples:" in result.stdout
