"""The folders of topics: which topic each is, and where those go that nobody knows."""

from __future__ import annotations

import logging

import pytest

from penstock.broker.partitions.folders import TopicFolders
from penstock.model.ids import TopicId, TopicPartition
from penstock.replication.replica.saved_state import RAFT_JOURNAL
from penstock.storage.files.journal import read_journal, write_journal
from tests.kit.simulated_disk import SimulatedDisk

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


def test_a_copy_that_is_let_go_leaves_what_it_must_not_forget() -> None:
    """R-REP-2, R-REP-7: the one that is made in its place begins with that."""
    disk = SimulatedDisk()
    folders = TopicFolders(disk.root)
    folders.make("orders", ID, [0, 1], flush=True)
    name = TopicPartition("orders", 1)
    folders.let_go(name, b"term and vote")
    after = TopicFolders(disk.after_crash("lost").root)
    assert after.found() == {"orders": (0,)}
    after.make("orders", ID, [0, 1], flush=True)
    assert read_journal(after.folder(name), RAFT_JOURNAL) == b"term and vote"
    assert after.found() == {"orders": (0, 1)}
    write_journal(after.folder(name), RAFT_JOURNAL, b"later")
    after.make("orders", ID, [1], flush=True)
    assert read_journal(after.folder(name), RAFT_JOURNAL) == b"later", "once"


def test_a_topic_whose_copies_were_all_let_go_is_still_found() -> None:
    """So that what they remember goes when the topic does."""
    folders = TopicFolders(SimulatedDisk().root)
    folders.make("orders", ID, [3], flush=True)
    folders.let_go(TopicPartition("orders", 3), b"memory")
    assert folders.found() == {"orders": ()}
