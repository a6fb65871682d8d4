"""Drivers of Spark as processes of their own: started, watched, killed with all they started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

ROOT = Path(__file__).parents[3]
PATIENCE_S = 240.0


class Driver:
    """`copy_main` in a session of its own; whatever is left of it is killed with the `with`."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        *,
        master: str,
        stops: dict[str, int] | None = None,
        deaths: dict[str, int] | None = None,
        rows_per_trigger: int = 1000,
    ) -> None:
        """folder: of the checkpoints and the archive, which outlives the driver."""
        # Its own places, so that a second driver stops where the first one did.
        self._halts = folder / f"halts-{time.monotonic_ns()}"
        self._halts.mkdir(parents=True)
        self._stderr = (self._halts / "stderr").open("w+")
        arguments = {
            "folder": str(folder),
            "bootstrap": bootstrap,
            "master": master,
            "halts": str(self._halts),
            "stops": stops or {},
            "deaths": deaths or {},
            "rows_per_trigger": rows_per_trigger,
        }
        environment = dict(os.environ)
        if master.startswith("local-cluster"):
            environment["SPARK_HOME"] = str(spark_home(folder / "spark"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.spark.copy_main", json.dumps(arguments)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        self._stderr.close()

    def wait_for(self, place: str) -> None:
        """Until the driver, or one of its workers, has stopped or died at the place."""
        reached = self._halts / f"{place}.reached"
        deadline_s = time.monotonic() + PATIENCE_S
        while not reached.exists():
            assert self._process.poll() is None, f"ended before {place}: {self.complaint()}"
            assert time.monotonic() < deadline_s, f"{place} was not reached: {self.complaint()}"
            time.sleep(0.02)

    def has_reached(self, place: str) -> bool:
        return (self._halts / f"{place}.reached").exists()

    def release(self, place: str) -> None:
        """Let it go on."""
        (self._halts / f"{place}.released").touch()

    def wait(self) -> None:
        """Until it has ended by itself, well."""
        assert self._process.wait(PATIENCE_S) == 0, self.complaint()

    def kill(self) -> None:
        """SIGKILL to all of it at once: the driver, its JVMs, its Python workers.

        The daemons of the workers have process groups of their own, and stay in the session."""
        while members := session_members(self._process.pid):
            for pid in members:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self._process.poll()
            time.sleep(0.01)
        self._process.wait()

    def complaint(self) -> str:
        """What it wrote last, without the stacks of Java."""
        self._stderr.seek(0)
        lines = [line for line in self._stderr if not line.startswith("\tat ")]
        return "".join(lines)[-4000:]


def spark_home(folder: Path) -> Path:
    """pip's Spark, seen from another folder: a local cluster puts its workers' files there."""
    folder.mkdir(exist_ok=True)
    for entry in Path(pyspark.__path__[0]).iterdir():
        if entry.name != "work" and not (folder / entry.name).exists():
            (folder / entry.name).symlink_to(entry)
    return folder


def session_members(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # After the name, which is in parentheses: state, parent, group, session.
            state, _, _, found = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(found) == session and state != "Z":
            members.append(int(entry.name))
    return members
