"""What tests of real brokers rely on: whatever a broker does, none is left behind."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.kit.processes import brokers as processes
from tests.kit.processes.brokers import BrokerProcess


def test_a_broker_that_does_not_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "STOP_S_MAX", 0.1)
    with BrokerProcess(tmp_path) as broker:
        broker.process.send_signal(signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            broker.stop()
        assert broker.process.poll() == -signal.SIGKILL


def test_a_broker_that_says_something_else_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "READY", "we shall see")
    broker = BrokerProcess(tmp_path)
    with pytest.raises(AssertionError, match="did not start"):
        broker.start()
    assert broker.process.poll() == -signal.SIGKILL
