"""Member processes (`member_main`), and what they have told so far.

The invariant: no process outlives the `with`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[3]
MAIN = "tests.system.delivery.member_main"
# On a busy machine all takes its time; but less than the session (45 s) of a member that is gone.
SECONDS_MAX = 40.0


class MemberProcess:
    """`with MemberProcess(address, topic, group, name) as member`"""

    def __init__(self, address: str, topic: str, group: str, name: str) -> None:
        self.name = name
        self.owned: set[int] = set()
        self.read: list[tuple[int, int]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", MAIN, address, topic, group, name],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """As a crash would."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            match event["event"]:
                case "assigned":
                    self.owned |= set(event["partitions"])
                case "revoked":
                    self.owned -= set(event["partitions"])
                case "read":
                    self.read.append((event["partition"], event["offset"]))


def until(condition: Callable[[], bool], meanwhile: Callable[[], object] | None = None) -> float:
    """How long it took until it was so."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() - began_s < SECONDS_MAX, "it did not happen"
        if meanwhile is not None:
            meanwhile()
        time.sleep(0.01)
    return time.monotonic() - began_s
