"""The groups are what their records say: whatever is asked of them, reading the topic again, whole,
compacted or from a checkpoint, leads to the same offsets, members and kinds."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.messages import GroupState, LeaveRequest, LeavingMember
from penstock.coordination.group.effects import Record
from penstock.coordination.group.table import GroupTable
from penstock.model.errors import PenstockError
from tests.kit.models.group_coordinator import CONFIG, RETENTION_MS, Shell
from tests.kit.models.tickets import Named

GROUPS = st.sampled_from(["a", "b", "c"])
TOPICS = st.sampled_from(["orders", "events"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), GROUPS, TOPICS, st.integers(0, 9)),
        st.tuples(st.just("member commit"), GROUPS, TOPICS, st.integers(0, 9)),
        st.tuples(st.just("stable"), GROUPS),
        st.tuples(st.just("leave"), GROUPS),
        st.tuples(st.just("consumer"), GROUPS, st.sampled_from([0, 1, 2, -1])),
        st.tuples(st.just("share"), GROUPS, st.sampled_from([0, 1, 2, -1])),
        st.tuples(st.just("share write"), GROUPS, TOPICS, st.integers(1, 3), st.binary(max_size=3)),
        st.tuples(st.just("delete"), GROUPS),
        st.tuples(st.just("delete offset"), GROUPS, TOPICS),
        st.tuples(st.just("time"), st.sampled_from([1, 5_000, 60_000, RETENTION_MS])),
        st.tuples(st.just("topic made again"), TOPICS),
    ),
    max_size=30,
)


def do(shell: Shell, step: tuple[object, ...]) -> None:  # noqa: C901 - a table of steps
    groups = shell.groups
    match step:
        case ("commit", str(group), str(topic), int(offset)):
            shell.commit(group, offset, topic)
        case ("member commit", str(group), str(topic), int(offset)):
            found = groups.table.get(group)
            machine = None if found is None else found.machine
            generation = machine.generation if isinstance(machine, ClassicGroup) else 1
            shell.commit(group, offset, topic, member_id="member", generation=generation)
        case ("stable", str(group)):
            if groups.table.get(group) is None or groups.table.get_or_create(group).is_empty:
                shell.stable(group)
        case ("leave", str(group)):
            request = LeaveRequest(members=(LeavingMember(member_id="member"),))
            shell.does(groups.leave(Named("leave"), group, request, shell.now_ms))
        case ("consumer", str(group), int(epoch)):
            shell.consumer(group, epoch)
        case ("share", str(group), int(epoch)):
            shell.share(group, epoch)
        case ("share write", str(group), str(topic), int(term), bytes(state)):
            shell.share_write(group, state, topic, term)
        case ("delete", str(group)):
            shell.does(groups.delete(Named("delete"), [group]))
        case ("delete offset", str(group), str(topic)):
            shell.does(groups.delete_offsets(Named("delete"), group, [(topic, 0)]))
        case ("time", int(passed_ms)):
            shell.now_ms += passed_ms
            shell.expire()
        case ("topic made again", str(topic)):
            shell.topic_ids[topic] += "x"
        case _:
            raise AssertionError(step)


def facts(table: GroupTable) -> dict[str, object]:
    """What is to be the same."""
    return {
        group.name: (
            sorted(group.offsets),
            group.records,
            type(group.machine) if group.records else None,
        )
        for group in table
        if group.offsets or group.records
    }


def compacted(log: list[Record]) -> list[Record]:
    last = {record.key: index for index, record in enumerate(log)}
    return [
        record
        for index, record in enumerate(log)
        if last[record.key] == index and record.value is not None
    ]


@given(STEPS)
@settings(deadline=None)
def test_reading_again_leads_to_the_same_groups(steps: list[tuple[object, ...]]) -> None:
    """R-STO-7, R-DEL-10."""
    shell = Shell()
    for step in steps:
        with contextlib.suppress(PenstockError):
            do(shell, step)
    groups = shell.groups
    assert groups.table.offset_count == sum(len(group.offsets) for group in groups.table)
    checkpoint = [
        Record(key=key, value=value) for key, value in groups.table.checkpoint().records()
    ]
    for records in (shell.log, compacted(shell.log), checkpoint):
        again = GroupTable(CONFIG)
        for record in records:
            again.apply(record.key, record.value, 0)
        assert again.restored(shell.now_ms) == []
        assert facts(again) == facts(groups.table)
        assert again.offset_count == groups.table.offset_count
        assert sorted(again.shares) == sorted(groups.table.shares)
        assert again.shares.size_bytes == groups.table.shares.size_bytes
        assert all(again.get(name) is not None for name, _ in again.shares)
        for group in again:
            if isinstance(group.machine, ClassicGroup):
                assert group.machine.state in (GroupState.STABLE, GroupState.EMPTY)
