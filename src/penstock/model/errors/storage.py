"""What can go wrong with a broker's disk, and with what is kept on it.

Not `OSError`, which becomes one of these where the disk is touched. The invariant: codes 60 to 64.
"""

from __future__ import annotations

from penstock.model.errors.base import PenstockError


class StorageError(PenstockError):
    """The broker's disk did not do what was asked."""

    code = 60


class DiskFull(StorageError):
    """The broker's disk is full: free some room or shorten the retention."""

    code = 61
    retriable = True


class StorageFailed(StorageError):
    """The partition is read-only since its disk failed: see the broker's log."""

    code = 62


class CorruptLog(StorageError):
    """The bytes on the broker's disk do not have the checksum they were written with."""

    code = 63


class CorruptFacts(StorageError):
    """What the registry keeps of the cluster cannot be understood."""

    code = 64
