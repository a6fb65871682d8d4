"""`penstock produce --delay`, `penstock delayed` and `penstock schedules` as a person uses them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.kit.processes.brokers import BrokerProcess


def penstock(broker: BrokerProcess, *words: str, given: bytes = b"", code: int = 0) -> str:
    command = [sys.executable, "-m", "penstock.cli", *words, "--bootstrap", broker.address]
    done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode() if code == 0 else done.stderr.decode()


def test_delays_and_schedules_from_the_command_line(tmp_path: Path) -> None:
    """R-DEL-13."""
    with BrokerProcess(tmp_path) as broker:
        ids = penstock(broker, "produce", "later", "--delay", "1h", given=b"a\nb\n").split()
        assert len(ids) == 2
        (told,) = json.loads(penstock(broker, "delayed", "describe", "--json"))["topics"]
        assert (told["topic"], told["waiting"]) == ("later", 2)
        assert "later" in penstock(broker, "delayed", "describe")
        penstock(broker, "delayed", "cancel", *ids)
        assert "is not waiting" in penstock(broker, "delayed", "cancel", ids[0], code=1)
        assert "is no id" in penstock(broker, "delayed", "cancel", "x", code=1)
        penstock(broker, "produce", "soon", "--delay", "100ms", given=b"c\n")
        shown = penstock(broker, "consume", "soon", "--max", "1")
        assert shown.strip() == "c"
        past = penstock(broker, "produce", "soon", "--at", "2020-01-01T00:00:00", given=b"d\n")
        assert past.strip()
        assert "not both" in penstock(
            broker, "produce", "soon", "--at", "2020-01-01", "--delay", "1s", code=1
        )
        assert "give --delay" in penstock(broker, "produce", "soon", "--ordered", code=1)
        marks = ("--tag", "paid", "--ttl", "1h", "--priority", "9")
        penstock(broker, "produce", "marked", "--delay", "0s", *marks, given=b"e\n")
        shown = penstock(broker, "consume", "marked", "--max", "1", "--tag", "paid", "--json")
        (found,) = map(json.loads, shown.splitlines())
        names = {
            header["name"] if isinstance(header, dict) else header[0] for header in found["headers"]
        }
        assert names == {"penstock-tag", "penstock-expires-ms", "penstock-priority"}
        for refused in (("--acks", "1"), ("--compression", "zstd"), ("--exclusive", "fence")):
            told = penstock(broker, "produce", "soon", "--delay", "1s", *refused, code=1)
            assert "not for delayed messages" in told
        penstock(broker, "schedules", "put", "beat", "@every 1s", "beats", "alive")
        (schedule,) = json.loads(penstock(broker, "schedules", "list", "--json"))
        assert (schedule["name"], schedule["topic"]) == ("beat", "beats")
        time.sleep(1.2)
        assert penstock(broker, "consume", "beats", "--max", "1").strip() == "alive"
        penstock(broker, "schedules", "delete", "beat")
        assert json.loads(penstock(broker, "schedules", "list", "--json")) == []
        assert "no schedule 'beat'" in penstock(broker, "schedules", "delete", "beat", code=1)
        assert "fields" in penstock(
            broker, "schedules", "put", "bad", "every day", "beats", "x", code=1
        )
