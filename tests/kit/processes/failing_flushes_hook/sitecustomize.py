"""Imported first by each Python that has this folder on its PYTHONPATH: lets its flushes fail.

`fdatasync` of a file fails with EIO while there is the file that FAILING_FLUSHES names: its content
is a folder, and all in it is meant. Everything else is as the operating system does it. So a broker
process is as a user's, but for its disk.
"""

import errno
import os
import pathlib
from typing import Any

_fdatasync = os.fdatasync
_told = pathlib.Path(os.environ["FAILING_FLUSHES"])


def _failing(descriptor: Any) -> None:
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    if path.startswith(_failing_folder()):
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)
    _fdatasync(descriptor)


def _failing_folder() -> str | tuple[()]:
    """It may end at any moment, which is no error of a flush."""
    try:
        return _told.read_text()
    except FileNotFoundError:
        return ()


os.fdatasync = _failing  # type: ignore[assignment]
