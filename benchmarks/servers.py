"""The servers under test: real processes on loopback with a folder of their own, started and ended
by their process id, and what they cost.

Not a measurement. Invariant: whatever ends a `with`, its process is gone and its folder removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from benchmarks.load import Link
from benchmarks.wire import NativeWire

ROOT: Final = Path(__file__).resolve().parents[1]
# Beside the code and not in the system's temporary folder, which is often no disk at all: there a
# flush would cost nothing.
SCRATCH: Final = ROOT / ".benchmarks"
_START_S_MAX: Final = 120.0
_STOP_S_MAX: Final = 60.0
_LISTENING: Final = re.compile(rb"listening on ([0-9.]+):(\d+)\s")


class PeerMissing(Exception):
    """A peer cannot be had on this machine; the message says what is missing."""


class Server:
    """A running child process that listens on `address`."""

    def __init__(self, process: subprocess.Popen[bytes], address: tuple[str, int]) -> None:
        self.address = address
        self.pid = process.pid
        self._process = process

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def cpu_s(self) -> float:
        """CPU time of all its threads so far, user and system."""
        # Linux's clock id of another process's CPU time, as clock_getcpuclockid(3) makes it: it
        # counts nanoseconds where /proc counts ticks of ten milliseconds.
        return time.clock_gettime((~self.pid << 3) | 2)

    @property
    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        resident = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert resident, "a running process has memory"
        return int(resident[1]) * 1024

    def stop(self) -> None:
        """End it in order (SIGTERM); by force if it does not end."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(_STOP_S_MAX)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()
        self.close()

    def close(self) -> None:
        """Let go of one that has ended."""
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder on the disk that holds the code."""
    SCRATCH.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=SCRATCH))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        with contextlib.suppress(OSError):  # another run may be using it
            SCRATCH.rmdir()


def start_floor(log: Path) -> Server:
    """It appends to the one file."""
    return start_listening([sys.executable, "-m", "benchmarks.floor", str(log)])


def start_penstock(data: Path, *settings: str) -> Server:
    """With settings other than the defaults, as `--set` takes them."""
    program = Path(sys.executable).with_name("penstock")
    chosen = [word for setting in settings for word in ("--set", setting)]
    where = ["--listen", "127.0.0.1:0", "--data", str(data)]
    return start_listening([str(program), "up", *where, *chosen])


def start_listening(command: Sequence[str]) -> Server:
    """Start a server that says `listening on HOST:PORT` on its standard output when it is ready."""
    return wait_until_it_listens(launch(command, os.environ))


def launch(command: Sequence[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process of the code beside these benchmarks, whatever is installed."""
    environment = {**variables, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    # A start that compiles all of its modules is not what a user has.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment)


def wait_until_it_listens(process: subprocess.Popen[bytes]) -> Server:
    """The server, when it has said that it is ready; if it does not, it is ended."""
    assert process.stdout is not None
    try:
        return Server(process, _read_address(process.stdout))
    except BaseException:
        process.kill()
        process.wait()
        process.stdout.close()
        raise


def create_topic(server: Server, topic: str, partitions: int, durability: str) -> None:
    """Create a topic on a running Penstock."""
    wire = NativeWire()
    with Link(server.address, wire) as link:
        link.call(wire.create_topic(topic, partitions, durability))


def delete_topic(server: Server, topic: str) -> None:
    """Delete a topic of a running Penstock; its files are gone when this returns."""
    wire = NativeWire()
    with Link(server.address, wire) as link:
        link.call(wire.delete_topic(topic))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _read_address(output: IO[bytes]) -> tuple[str, int]:
    deadline = time.monotonic() + _START_S_MAX
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if not selector.select(deadline - time.monotonic()):
                break
            piece = os.read(output.fileno(), 65_536)
            said += piece
            if listening := _LISTENING.search(said):
                return listening[1].decode(), int(listening[2])
            if not piece:
                raise RuntimeError(f"The server ended before it listened. It said: {said!r}")
    raise RuntimeError(f"The server did not listen within {_START_S_MAX:.0f} s. It said: {said!r}")
