"""How a command on Spark is told to end, and how its errors reach people."""

from __future__ import annotations

import signal

import pytest
import typer

from penstock.cli.pipeline.common import Stopping, one_sentence
from penstock.model.errors import InvalidConfig


def test_the_first_signal_asks_and_the_second_does_not_wait() -> None:
    stopping, before = Stopping(), signal.getsignal(signal.SIGINT)
    with stopping.on_signals():
        signal.raise_signal(signal.SIGTERM)
        assert stopping.is_asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_errors_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, one_sentence(is_debug=False):
        raise ValueError("[SOME_CLASS] It is wrong. SQLSTATE: 1; line 1")
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: It is wrong.\n"
    with pytest.raises(InvalidConfig, match="ours"), one_sentence(is_debug=False):
        raise InvalidConfig("ours")
    with pytest.raises(typer.Exit) as exited, one_sentence(is_debug=False):
        raise KeyboardInterrupt
    assert exited.value.exit_code == 130


def test_debugging_shows_the_traceback_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), one_sentence(is_debug=True):
        raise ValueError("It is wrong.")
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert told.endswith("error: It is wrong.\n")
