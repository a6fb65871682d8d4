"""Two folders change places at once, so that whoever looks sees one or the other.

Linux has a call for it (renameat2 with RENAME_EXCHANGE), macOS another; Python has neither. Not
every file system can do it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Final

_AT_CURRENT_FOLDER: Final = -100
_RENAME_EXCHANGE: Final = 2
_RENAME_SWAP: Final = 2
# What systems and file systems answer that cannot do it.
_UNABLE: Final = frozenset(
    {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV, errno.EPERM, errno.EMLINK}
)


class CannotExchange(Exception):
    """This system or file system cannot exchange two folders, or not fill them with links."""


def exchange(first: str, second: str) -> None:
    """Each gets the other's name, in one step. OSError if one of them is not there."""
    call = _call()
    if call is None:
        raise CannotExchange
    if call(os.fsencode(first), os.fsencode(second)) == 0:
        return
    number = ctypes.get_errno()
    if number in _UNABLE:
        raise CannotExchange
    raise OSError(number, os.strerror(number), first, None, second)


def check_exchange(folder: str) -> None:
    """Raise CannotExchange unless folders can be exchanged here, and files linked: tried on empty
    ones, in a folder that is for nothing else."""
    first, second = os.path.join(folder, "first"), os.path.join(folder, "second")
    for each in (first, second):
        os.mkdir(each)
    file = os.path.join(first, "file")
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o644))
    try:
        os.link(file, os.path.join(second, "link"))
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
        raise CannotExchange from None
    exchange(first, second)


@cache
def _call() -> Callable[[bytes, bytes], int] | None:
    library = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            swap = library.renamex_np
            return lambda first, second: int(swap(first, second, _RENAME_SWAP))
        rename = library.renameat2
    except AttributeError:
        return None
    here = _AT_CURRENT_FOLDER
    return lambda first, second: int(rename(here, first, here, second, _RENAME_EXCHANGE))
