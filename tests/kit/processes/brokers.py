"""Real broker processes for system tests: started as a person would, killed as a crash would.

The invariant: none outlives its test, whatever it does.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

READY = r"listening on (\S+)"
STOP_S_MAX = 20.0


class BrokerProcess:
    """`penstock up` on a folder; it ends with the `with`."""

    module = "penstock.cli"

    def __init__(self, data: Path, *settings: str) -> None:
        self.address = "127.0.0.1:0"
        self._data = data
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop()

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """On the same port as before, if there was one."""
        command = [sys.executable, "-m", self.module, "up", "--data", str(self._data)]
        command += ["--listen", self.address]
        for setting in self._settings:
            command += ["--set", setting]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        ready = re.search(READY, self._process.stdout.readline())
        if ready is None:
            self.kill()
        assert ready is not None, "the broker did not start"
        self.address = ready[1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._close_pipe()

    def stop(self) -> None:
        """In order; one that does not end is killed, and the test told."""
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(STOP_S_MAX) == 0
        finally:
            self.kill()  # nothing, where it has ended

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def _close_pipe(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
