"""Has a process that reads keep the memory of one answer for the next.

An answer and its columns are some ten MiB that are let go together. glibc hands that much back to
the system at once, and to get it anew costs a task as much as to decode what it reads. Not a bound
of what is used: `client.consuming.range_reader` has those. The invariant: where the C library is
another one, nothing changes.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from typing import Final

from penstock.model.limits import MIB

# The numbers are those of malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
# Blocks up to the largest for which glibc allows it come from memory that can be kept. So much of
# that stays when it is free: two answers with their columns, which are far larger when compressed.
_KEPT_BLOCK_BYTES_MAX: Final = 32 * MIB
_KEPT_BYTES_MAX: Final = 64 * MIB


@cache
def keep_freed_memory() -> None:
    """Do it for this process, from now on."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BLOCK_BYTES_MAX)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES_MAX)
