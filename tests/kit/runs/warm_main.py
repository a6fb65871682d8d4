"""The process that tests fork commands from: it has imported all of Penstock, and does nothing.

A fork of it becomes the command `penstock` with the arguments, the environment, the folder and the
files it is told, a hundred milliseconds of imports sooner than a new interpreter. It runs on, ends
and dies like one: from `become` on there is nothing of this program in it. The invariant: no thread
and no event loop is ever started here, not by a library either, since a fork would not have it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import socket
import struct
import sys
import time
from typing import Any

LENGTH = struct.Struct("!I")
# Of this process: it has a socket, two pipes, and the files of one request.
FILES_MAX = 64
# What is in Spark's packages imports pyarrow, whose allocator starts a thread.
_NOT_WARM = {"penstock.spark", "penstock.console", "penstock.testing", "penstock.cli.__main__"}
# What a command line, an address and an event loop bring in that are not in any of our modules.
_IMPORTED_LATE = ("typer._adapters", "encodings.idna", "uvloop")


def import_all() -> None:
    import_below("penstock")
    from typer.main import get_command

    from penstock.cli.main import make_app

    get_command(make_app())  # which imports what typer puts off
    for name in _IMPORTED_LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def import_below(package: str) -> None:
    folders = importlib.import_module(package).__path__
    for module in pkgutil.iter_modules(folders, f"{package}."):
        if module.name not in _NOT_WARM:
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(module.name)
                if module.ispkg:
                    import_below(module.name)


def serve(control: socket.socket) -> None:
    """Fork for each request; returns in the forks alone."""
    while True:
        head, files, _, _ = socket.recv_fds(control, LENGTH.size, 3)
        if not head:
            os._exit(0)  # the tests are over
        length = LENGTH.unpack(head)[0]
        request = json.loads(control.recv(length, socket.MSG_WAITALL))
        told, tell = os.pipe()
        between = os.fork()
        if between == 0:
            if os.fork():
                os._exit(0)
            if request["start_new_session"]:
                os.setsid()
            os.write(tell, LENGTH.pack(os.getpid()))
            become(request, files)
            return
        # With the process between gone, the tests' process has adopted the child.
        os.waitpid(between, 0)
        control.sendall(os.read(told, LENGTH.size))
        for descriptor in (*files, told, tell):
            os.close(descriptor)


def become(request: dict[str, Any], files: list[int]) -> None:
    """Take over all that a new process is given."""
    while os.getppid() != request["parent"]:
        time.sleep(0.0005)
    for number, descriptor in enumerate(files):
        os.dup2(descriptor, number)
    os.closerange(3, FILES_MAX)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    sys.modules["__main__"].__package__ = request["package"]
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        before = getattr(sys, name)
        stream = open(  # noqa: SIM115 - it is open as long as the process
            number, mode, encoding=before.encoding, errors=before.errors, closefd=False
        )
        if name == "stderr":
            assert isinstance(stream, io.TextIOWrapper)
            stream.reconfigure(line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    import_all()
    serve(socket.socket(fileno=int(sys.argv[1])))
    from penstock.cli.main import main

    main()
