"""`penstock pipeline` where Spark or Java is not installed: one sentence that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PIPELINE = """
[pipeline]
name = "copy"
checkpoint = "checkpoint"
[sources.orders]
topic = "orders"
bootstrap = "127.0.0.1:1"
[sinks.copied]
from = "orders"
topic = "copied"
bootstrap = "127.0.0.1:1"
"""
COMMANDS = {
    "inspect": ["inspect", "orders"],
    "validate": ["validate", "pipeline.toml"],
    "run": ["run", "pipeline.toml"],
    "archive": ["archive", "orders", "--to", "archive"],
    "replay": ["replay", "--from", "archive", "--to", "orders"],
}
SECONDS_MAX = 120


def said_by(command: str, folder: Path, environment: dict[str, str]) -> str:
    """What people see of a command that fails as commands do."""
    (folder / "pipeline.toml").write_text(PIPELINE)
    (folder / "archive").mkdir(exist_ok=True)
    run = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "pipeline", *COMMANDS[command]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "Traceback" not in run.stderr, run.stderr
    return run.stderr


@pytest.mark.parametrize(
    ("command", "package"), [*((command, "pyspark") for command in COMMANDS), ("run", "pyarrow")]
)
def test_without_spark(command: str, package: str, tmp_path: Path) -> None:
    """R-OPS-5: whoever installed no extra is told which."""
    for name in (package, "py4j") if package == "pyspark" else (package,):
        absent = tmp_path / "absent" / name
        absent.mkdir(parents=True)
        message = f"raise ModuleNotFoundError('No module named {name}', name={name!r})"
        (absent / "__init__.py").write_text(message)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "absent")}
    said = said_by(command, tmp_path, environment)
    assert said == "error: Spark is not installed: pip install 'penstock[spark]'.\n"


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_without_java(command: str, tmp_path: Path) -> None:
    """R-OPS-5: whoever has Spark and no Java is told what to install."""
    environment = {name: text for name, text in os.environ.items() if name != "JAVA_HOME"}
    said = said_by(command, tmp_path, {**environment, "PATH": str(tmp_path)})
    assert said.count("\n") == 1
    assert "Spark needs Java and there is none: install Java 17" in said
