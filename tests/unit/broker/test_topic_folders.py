"""The folders of topics: which topic each is, and where those go that nobody knows."""

from __future__ import annotations

import logging

import pytest

from penstock.broker.topic_folders import TopicFolders
from penstock.model.ids import TopicId, TopicPartition
from penstock.testing.simulated_disk import SimulatedDisk

ID = TopicId("ab" * 16)
OTHER = TopicId("cd" * 16)


def test_a_folder_says_which_topic_it_is_also_after_a_crash() -> None:
    disk = SimulatedDisk()
    folders = TopicFolders(disk.root)
    assert folders.identity("orders") is None
    folders.make("orders", ID, [0, 2], flush=True)
    after = TopicFolders(disk.after_crash("lost").root)
    assert after.identity("orders") == ID
    assert after.found() == {"orders": (0, 2)}
    assert after.folder(TopicPartition("orders", 2)).path.endswith("orders/2")


def test_one_of_an_earlier_version_is_told_which_it_is() -> None:
    disk = SimulatedDisk()
    folders = TopicFolders(disk.root)
    disk.root.subdirectory("topics").subdirectory("orders").subdirectory("0")
    assert folders.identity("orders") is None
    folders.make("orders", ID, [0], flush=False)
    assert folders.identity("orders") == ID


def test_a_damaged_mark_is_no_mark(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    folders = TopicFolders(disk.root)
    folders.make("orders", ID, [0], flush=True)
    disk.flip_bit("topics/orders/topic.journal", 14, 1)
    assert folders.identity("orders") is None
    assert "does not say which it is" in caplog.text


def test_the_trash_is_emptied_and_what_is_set_aside_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing acknowledged is thrown away because a registry forgot it."""
    disk = SimulatedDisk()
    folders = TopicFolders(disk.root)
    folders.make("deleted", ID, [0], flush=True)
    folders.make("unknown", OTHER, [0], flush=True)
    folders.move_to_trash("deleted")
    folders.move_to_trash("deleted")
    with caplog.at_level(logging.WARNING):
        folders.set_aside("unknown")
    folders.empty_trash()
    assert folders.found() == {}
    assert not folders.has("deleted")
    kept = {path for path in disk.files() if "set-aside" in path}
    assert kept == {f"set-aside/unknown.{OTHER}/topic.journal"}
    assert "is kept in" in caplog.text
