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
    if _told.exists():
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path.startswith(_told.read_text()):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
    _fdatasync(descriptor)


os.fdatasync = _failing  # type: ignore[assignment]
