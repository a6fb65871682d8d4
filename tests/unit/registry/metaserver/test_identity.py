"""A folder is used by the server and with the servers it was made for, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.model.errors import CorruptFacts, InvalidConfig
from penstock.registry.metaserver.identity import read_or_make_identity, write_identity
from penstock.storage.files.journal import write_journal
from tests.kit.simulated_disk import SimulatedDisk


def test_a_new_folder_may_be_a_lost_one_and_does_not_vote() -> None:
    folder = SimulatedDisk().root
    made = read_or_make_identity(folder, 2, [1, 2, 3])
    assert not made.may_vote
    assert read_or_make_identity(folder, 2, [3, 2, 1]) == made
    write_identity(folder, replace(made, may_vote=True))
    assert read_or_make_identity(folder, 2, [1, 2, 3]).may_vote


def test_who_is_alone_has_nobody_to_ask() -> None:
    assert read_or_make_identity(SimulatedDisk().root, 1, [1]).may_vote


@pytest.mark.parametrize(("me", "voters"), [(1, [1, 2, 3]), (2, [2]), (2, [1, 2, 4])])
def test_anothers_folder_is_refused(me: int, voters: list[int]) -> None:
    folder = SimulatedDisk().root
    read_or_make_identity(folder, 2, [1, 2, 3])
    with pytest.raises(InvalidConfig, match="is of meta server 2 of 1, 2, 3"):
        read_or_make_identity(folder, me, voters)


def test_what_cannot_be_understood_is_no_identity() -> None:
    folder = SimulatedDisk().root
    write_journal(folder, "identity.journal", b'{"format":1,"id":-1,"voters":[],"may_vote":1}')
    with pytest.raises(CorruptFacts, match="identity"):
        read_or_make_identity(folder, 1, [1])
