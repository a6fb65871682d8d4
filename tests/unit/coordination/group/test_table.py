"""All groups by name: built from their records, woken in time, let go when nothing is left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.coordination.group import table
from penstock.coordination.group.effects import Record
from penstock.coordination.group.shared.messages import ShareGroupDescription
from penstock.coordination.group.table import GroupTable, Machine
from penstock.model.errors import Busy, CorruptLog
from tests.kit.models.group_coordinator import CONFIG, Shell
from tests.kit.models.tickets import Named


def apply_all(records: list[tuple[bytes, bytes]]) -> GroupTable:
    again = GroupTable(CONFIG)
    for key, value in records:
        again.apply(key, value, 0)
    assert again.restored(1) == []
    return again


def full_shell() -> Shell:
    shell = Shell()
    shell.stable("classic")
    shell.consumer_joined("consumer")
    shell.share_joined("shared")
    shell.share_write("shared", b"state")
    shell.commit("simple", 5)
    shell.commit("simple", 6, "events")
    shell.commit("classic", 7, member_id="member", generation=1)
    return shell


def described(machine: Machine) -> object:
    """What epoch the members of a shared group were told last is not kept: they say it."""
    found = machine.describe()
    if not isinstance(found, ShareGroupDescription):
        return found
    return replace(found, members=tuple(replace(one, member_epoch=0) for one in found.members))


def test_a_checkpoint_leads_to_the_same_table() -> None:
    """R-STO-7."""
    shell = full_shell()
    taken = shell.groups.table.checkpoint()
    shell.commit("simple", 99)
    assert len(taken) == len(list(taken.records()))
    again = apply_all(list(taken.records()))
    assert again.offset_count == shell.groups.table.offset_count == 3
    found = again.get("simple")
    assert found is not None
    assert [offset.offset for offset in found.offsets] == [5, 6], "as it was then"
    for group in shell.groups.table:
        other = again.get(group.name)
        assert other is not None
        assert other.records == group.records
        if group.machine is not None:
            assert other.machine is not None
            assert described(other.machine) == described(group.machine)
    assert list(again.shares) == list(shell.groups.table.shares)


def test_what_a_tombstone_names_is_gone() -> None:
    shell = full_shell()
    shell.does(shell.groups.delete(Named("delete"), ["simple"]))
    again = shell.restarted()
    assert again.names() == ["classic", "consumer", "shared"]
    assert again.groups.table.offset_count == 1


def test_a_record_that_cannot_be_read_costs_the_members_and_not_the_offsets() -> None:
    shell = full_shell()
    again = GroupTable(CONFIG)
    for record in shell.log:
        again.apply(record.key, record.value, 0)
    again.apply(b'{"kind": "group", "group": "classic"}', b"{}", 0)
    [problem] = again.restored(1)
    assert isinstance(problem, CorruptLog)
    found = again.get("classic")
    assert found is not None
    assert found.machine is None
    assert len(found.offsets) == 1


def test_a_group_is_woken_when_its_machine_says() -> None:
    shell = Shell()
    shell.stable("g")
    groups = shell.groups.table
    assert groups.due(10_000) == []
    assert groups.wake_ms == 10_001
    [group] = groups.due(10_001)
    assert group.name == "g"


def test_heartbeats_do_not_pile_up_wakes() -> None:
    shell = Shell()
    joined = shell.stable("g")
    for shell.now_ms in range(2, 1_000):
        shell.commit("g", member_id=joined.member_id, generation=joined.generation)
    assert len(shell.groups.table._wakes) <= 3
    shell.now_ms = 10_001
    shell.expire()
    assert shell.groups.table.wake_ms == 10_999, "nobody was late"


def test_a_group_of_the_same_name_has_its_own_time() -> None:
    shell = Shell()
    shell.stable("g")
    [group] = shell.groups.table
    shell.groups.table.remove(group)
    shell.commit("g")
    assert shell.groups.table.due(20_000) == []


def test_a_group_of_which_nothing_is_left_is_not_there() -> None:
    groups = GroupTable(CONFIG)
    group = groups.get_or_create("g")
    groups.drop_if_nothing(group)
    assert len(groups) == 0
    groups.apply(b'{"group": "g", "topic": "t", "partition": 0}', None, 0)
    groups.restored(1)
    assert groups.get("g") is None


def test_the_order_of_records_is_that_of_a_compacted_topic() -> None:
    group = GroupTable(CONFIG).get_or_create("g")
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4"), (b"c", None)):
        group.note(Record(key=key, value=value))
    assert list(group.records.items()) == [(b"b", b"2"), (b"a", b"3")]


def test_there_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "GROUPS_MAX", 1)
    groups = GroupTable(CONFIG)
    groups.get_or_create("a")
    groups.get_or_create("a")
    with pytest.raises(Busy):
        groups.get_or_create("b")
