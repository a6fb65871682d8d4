"""The data folder: taken by one broker at a time, and known from its copies."""

from __future__ import annotations

import shutil
from pathlib import Path

from penstock.broker.data_folder import DataFolder


def place_of(path: Path) -> int:
    folder = DataFolder(str(path))
    folder.take()
    try:
        return folder.place
    finally:
        folder.leave()


def test_the_place_is_the_same_at_each_start_and_another_for_a_copy(tmp_path: Path) -> None:
    """R-REP-5: who registers again with it need not wait, and a copy cannot."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    place = place_of(original)
    assert place_of(original) == place
    shutil.copytree(original, copy)
    assert place_of(copy) != place
    original.rename(tmp_path / "moved")
    assert place_of(tmp_path / "moved") == place
