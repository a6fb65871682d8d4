"""Tests' `penstock …` processes, forked from a process that has imported everything.

Most of what a command costs is imports, and tests start more than a thousand. While `install` is
in force, `subprocess` (and so asyncio) starts each command that is plainly `penstock …`, or
`python -m penstock.cli …`, as a fork of `warm_main`: a child of the test's own process like any
other, with a process id to wait for, to stop and to kill. Everything else is executed as ever, as
is what asks for more than a fork can give; so is all of it in tests marked `executed`, where the
environment says so (`SWITCH`), and where there is no Linux.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import penstock.cli
from tests.kit.runs import warm_main

# In the environment, it has every process executed. A broker would take it for a setting.
SWITCH = "PENSTOCK_TEST_EXEC"
SCRIPT = str(Path(sys.executable).with_name("penstock"))
MODULE = [sys.executable, "-m", "penstock.cli"]
_MODULE_FILE = str(Path(penstock.cli.__file__).with_name("__main__.py"))

# What an interpreter reads of its environment as it starts, and Penstock as it is imported.
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "PENSTOCK_PURE")
_PR_SET_CHILD_SUBREAPER = 36


class Warm:
    """The warm process, started when it is first needed, and again should it have ended."""

    def __init__(self) -> None:
        self.is_on = sys.platform == "linux" and not os.environ.get(SWITCH)
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._environment: dict[str, str] = {}

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether an interpreter started with the environment would be like the warm one."""
        return _read_at_start(environment) == (self._environment or _read_at_start(os.environ))

    def fork(self, request: dict[str, Any], files: Sequence[int]) -> int:
        """The process id of a new child of this process."""
        data = json.dumps({**request, "parent": os.getpid()}).encode()
        with self._lock:
            try:
                return self._forked(data, files)
            except ConnectionError:
                # Something killed it: of all that it forks for, one test may be to blame.
                self.end()
                return self._forked(data, files)

    def _forked(self, data: bytes, files: Sequence[int]) -> int:
        control = self._started()
        with _adopting():
            socket.send_fds(control, [warm_main.LENGTH.pack(len(data))], files)
            control.sendall(data)
            answer = control.recv(warm_main.LENGTH.size, socket.MSG_WAITALL)
        if not answer:
            raise ConnectionResetError("the warm process has ended")
        child: int = warm_main.LENGTH.unpack(answer)[0]
        return child

    def _started(self) -> socket.socket:
        if self._control is None:
            self._environment = _read_at_start(os.environ)
            self._control, theirs = socket.socketpair()
            with theirs:
                descriptor = theirs.fileno()
                self.process = subprocess.Popen(
                    [sys.executable, str(warm_main.__file__), str(descriptor)],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[descriptor],
                )
        return self._control

    def end(self) -> None:
        if self._control is not None and self.process is not None:
            self._control.close()
            self.process.wait()
            self._control = self.process = None


warm = Warm()


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Let this process, not the machine's first, be given the children whose parent ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)


def install() -> None:
    """From now on, in this process and until it ends."""
    execute = subprocess.Popen._execute_child  # type: ignore[attr-defined]
    parameters = inspect.signature(execute)

    def start(self: Any, *given: Any) -> None:
        asked = parameters.bind(self, *given).arguments
        request = _request(asked)
        if request is None:
            execute(self, *given)
            return
        files = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        own = [number if each == -1 else each for number, each in enumerate(files)]
        self.pid = warm.fork(request, own)
        self._child_created = True
        self._close_pipe_fds(*(asked[end] for end in _PIPE_ENDS))

    subprocess.Popen._execute_child = start  # type: ignore[attr-defined]


_PIPE_ENDS = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")

# What a fork gives to a process; who asks for anything else is given a new interpreter.
_PLAIN = {
    "executable": None,
    "preexec_fn": None,
    "close_fds": True,
    "pass_fds": (),
    "shell": False,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "process_group": -1,
}


def _request(asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the warm process has to be told; None if the command has to be executed."""
    environment = os.environ if asked["env"] is None else asked["env"]
    folder = os.path.abspath(asked["cwd"] or ".")
    arguments = _arguments(asked["args"]) if warm.is_on else None
    is_plain = all(asked[name] == value for name, value in _PLAIN.items())
    if arguments is None or not is_plain or not os.path.isdir(folder):
        return None
    if not warm.fits(environment):
        return None
    return {
        "arguments": arguments,
        "package": None if arguments[0] == SCRIPT else "penstock.cli",
        "environment": dict(environment),
        "folder": folder,
        "start_new_session": asked["start_new_session"],
    }


def _arguments(command: Any) -> list[str] | None:
    """`sys.argv` of the command; None unless it is Penstock's."""
    words = [] if isinstance(command, str | bytes) else [os.fspath(word) for word in command]
    if words[:1] == [SCRIPT]:
        return words
    if words[: len(MODULE)] == MODULE:
        return [_MODULE_FILE, *words[len(MODULE) :]]
    return None
