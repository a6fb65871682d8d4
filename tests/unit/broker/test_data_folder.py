"""The data folder: taken by one broker at a time, and known from its copies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock.broker.data_folder import DataFolder
from penstock.model.errors import InvalidConfig
from penstock.storage.files.journal import write_journal
from penstock.storage.files.os_files import OsDirectory


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


def test_a_folder_of_somebody_else_is_refused_as_it_is(tmp_path: Path) -> None:
    for name in ("share", "bin", "lib", "meta", "etc"):
        (tmp_path / name).mkdir()
    with pytest.raises(InvalidConfig) as refused:
        place_of(tmp_path)
    assert str(refused.value) == (
        f"The folder {tmp_path} is not empty and not Penstock's (it has bin, etc, lib, …): choose "
        "an empty or a new folder with --data."
    )
    assert not (tmp_path / "lock").exists()
    assert len(list(tmp_path.iterdir())) == 5


def test_ours_and_empty_folders_are_taken(tmp_path: Path) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "lost+found").mkdir()
    place_of(mounted)
    # A start that came no further, and one that was restored without its stamp.
    for name in ("meta.new", "clean.journal", "registry.journal.new"):
        (mounted / name).touch()
    (mounted / "topics").mkdir()
    place_of(mounted)
    # A local cluster whose journal is not written yet.
    for name in ("broker-2", "zookeeper"):
        (mounted / name).mkdir()
    place_of(mounted)
    stamped = tmp_path / "stamped"
    stamped.mkdir()
    (stamped / "notes.txt").touch()
    with pytest.raises(InvalidConfig, match=r"it has notes\.txt"):
        place_of(stamped)
    write_journal(OsDirectory(str(stamped)), "meta", b"{}")
    place_of(stamped)
