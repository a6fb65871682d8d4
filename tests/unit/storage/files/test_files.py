"""The world's errors become typed ones that say what to do."""

from __future__ import annotations

import errno

import pytest

from penstock.model.errors import DiskFull, StorageFailed
from penstock.storage.files.files import remove_if_there, typed
from tests.kit.simulated_disk import SimulatedDisk


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_is_disk_full_and_may_pass(number: int) -> None:
    error = typed(OSError(number, "No room"), "writing x")
    assert isinstance(error, DiskFull)
    assert error.retriable
    assert "writing x" in str(error)
    assert "free some room" in str(error)


def test_everything_else_is_a_failed_disk() -> None:
    error = typed(OSError(errno.EIO, "Input/output error"), "reading y")
    assert isinstance(error, StorageFailed)
    assert not error.retriable
    assert "reading y: Input/output error" in str(error)


def test_removing_what_is_not_there_is_fine() -> None:
    root = SimulatedDisk().root
    root.open("a", create=True)
    remove_if_there(root, "a")
    remove_if_there(root, "a")
    assert root.names() == []
