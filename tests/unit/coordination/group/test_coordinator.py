"""Which group, of which kind, by whom: what the coordinator decides before the machines do."""

from __future__ import annotations

import pytest

from penstock.coordination.group import coordinator, table
from penstock.coordination.group.classic.messages import (
    GroupState,
    HeartbeatRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from penstock.coordination.group.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from penstock.model.errors import (
    Busy,
    GroupNotEmpty,
    GroupSubscribed,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidGroup,
    PenstockError,
    StaleMemberEpoch,
    UnknownGroup,
    UnknownMember,
)
from tests.kit.models.group_coordinator import RETENTION_MS, TOPICS, Shell
from tests.kit.models.tickets import Named


def leave(shell: Shell, group: str) -> None:
    request = LeaveRequest(members=(LeavingMember(member_id="member"),))
    shell.does(shell.groups.leave(Named("leave"), group, request, shell.now_ms))


# --- members -----------------------------------------------------------------------------------


def test_a_classic_group_survives_a_restart_without_a_rebalance() -> None:
    """R-DEL-4: members go on with heartbeats."""
    shell = Shell()
    joined = shell.stable("g")
    again = shell.restarted()
    beat = HeartbeatRequest(member_id=joined.member_id, generation=joined.generation)
    answers = again.does(again.groups.heartbeat(Named("beat"), "g", beat, 2))
    assert not isinstance(answers["beat"], Exception)
    assert again.groups.describe_classic("g").state is GroupState.STABLE


def test_a_consumer_group_survives_a_restart_with_its_epochs() -> None:
    shell = Shell()
    joined = shell.consumer_joined("g")
    again = shell.restarted()
    answer = again.consumer("g", joined.member_epoch)
    assert isinstance(answer, ConsumerHeartbeatAnswer)
    assert answer.member_epoch == joined.member_epoch
    again.commit("g", 4, member_id="member", generation=joined.member_epoch)
    assert again.offset("g") == 4


def test_who_is_in_no_group_is_no_member() -> None:
    shell = Shell()
    shell.consumer_joined("consumers")
    for group in ("nobody", "consumers"):
        with pytest.raises(UnknownMember):
            shell.groups.sync(
                Named("t"), group, SyncRequest(member_id="m", generation=1, assignments={}), 1
            )
        with pytest.raises(UnknownMember):
            shell.groups.heartbeat(
                Named("t"), group, HeartbeatRequest(member_id="m", generation=1), 1
            )
        with pytest.raises(UnknownMember):
            shell.groups.leave(Named("t"), group, LeaveRequest(members=()), 1)
    with pytest.raises(UnknownMember):
        shell.join("nobody", member_id="member")
    with pytest.raises(UnknownMember):
        shell.consumer("nobody", 3)
    with pytest.raises(InvalidGroup):
        shell.join("")
    assert shell.names() == ["consumers"]


def test_members_of_all_groups_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker remembers of members does not grow without end; who is in stays in."""
    monkeypatch.setattr(table, "GROUPS_BYTES_MAX", 1)
    shell = Shell()
    joined = shell.stable("g")
    with pytest.raises(Busy):
        shell.join("h")
    with pytest.raises(Busy):
        shell.consumer("c")
    assert shell.names() == ["g"]
    shell.join("g", member_id=joined.member_id)
    leave(shell, "g")
    shell.groups.delete(Named("t"), ["g"])
    assert shell.groups.table.size_bytes == 0
    shell.join("h", requires_known_member_id=True)
    with pytest.raises(Busy):
        shell.join("h", requires_known_member_id=True, new_member_id="another")
    shell.now_ms += 10_000
    shell.expire()
    assert shell.groups.table.size_bytes == 0, "an id that was given and never used"


def test_a_join_that_is_refused_leaves_no_group() -> None:
    shell = Shell()
    shell.join("g", session_timeout_ms=1)
    assert shell.names() == []


def test_a_group_has_one_kind_while_it_has_members() -> None:
    shell = Shell()
    shell.stable("classic")
    with pytest.raises(UnknownGroup, match="classic protocol"):
        shell.consumer("classic")
    shell.consumer_joined("consumer")
    with pytest.raises(InconsistentProtocol, match="next generation"):
        shell.join("consumer")


def test_an_empty_group_changes_its_kind_and_keeps_its_offsets() -> None:
    """And only the new kind is found after a restart."""
    shell = Shell()
    joined = shell.stable("g")
    shell.commit("g", 7, member_id=joined.member_id, generation=joined.generation)
    leave(shell, "g")
    answer = shell.consumer_joined("g")
    again = shell.restarted()
    assert again.groups.describe_consumer("g").epoch >= 1
    assert again.offset("g") == 7
    again.consumer("g", -1)
    assert answer.member_epoch >= 1
    again.stable("g")
    last = again.restarted()
    assert last.groups.describe_classic("g").state is GroupState.STABLE
    assert last.offset("g") == 7
    with pytest.raises(UnknownGroup, match="not a consumer group"):
        last.groups.describe_consumer("g")


@pytest.mark.parametrize("kind", ["simple", "classic", "consumer"])
def test_who_is_refused_does_not_change_the_kind_of_a_group(kind: str) -> None:
    """Its offsets would be kept for another time, and its generations begin again."""
    shell = Shell()
    if kind == "classic":
        shell.stable("g")
        leave(shell, "g")
    elif kind == "consumer":
        shell.consumer_joined("g")
        shell.consumer("g", -1)
    shell.commit("g", 7)
    written, before = len(shell.log), shell.groups.list()
    for answer in (
        shell.consumer("g", 5),
        shell.consumer("g", -1),
        shell.consumer("g", assignor="none"),
        shell.join("g", session_timeout_ms=1)["join"],
    ):
        assert isinstance(answer, PenstockError), answer
    assert shell.groups.list() == before
    assert len(shell.log) == written


def test_time_removes_members_of_every_group() -> None:
    shell = Shell()
    shell.stable("classic")
    shell.consumer_joined("consumer")
    deadline_ms = shell.groups.deadline_ms
    assert deadline_ms == 10_001
    shell.now_ms = 100_000
    shell.expire()
    assert {group.name: group.state for group in shell.groups.list()} == {
        "classic": "Empty",
        "consumer": "Empty",
    }


# --- offsets -----------------------------------------------------------------------------------


def test_anybody_may_commit_where_there_are_no_members() -> None:
    """R-DEL-10."""
    shell = Shell()
    assert shell.commit("g", 3) == {"commit": None}
    assert shell.offset("g") == 3
    assert shell.groups.describe_classic("g").state is GroupState.EMPTY
    assert shell.restarted().offset("g") == 3
    with pytest.raises(UnknownMember):
        shell.commit("g", member_id="m", generation=1)


def test_only_members_commit_where_there_are_any() -> None:
    shell = Shell()
    joined = shell.stable("classic")
    epoch = shell.consumer_joined("consumer").member_epoch
    for group in ("classic", "consumer"):
        with pytest.raises(UnknownMember):
            shell.commit(group)
    with pytest.raises(IllegalGeneration):
        shell.commit("classic", member_id="member", generation=joined.generation + 1)
    with pytest.raises(StaleMemberEpoch):
        shell.commit("consumer", member_id="member", generation=epoch + 1)
    with pytest.raises(StaleMemberEpoch):
        shell.groups.fetch("consumer", "member", epoch + 1)
    assert len(shell.groups.fetch("consumer", "member", epoch)) == 0
    shell.commit("classic", member_id="member", generation=joined.generation)
    shell.commit("consumer", member_id="member", generation=epoch)


def test_a_member_of_a_group_that_is_no_more() -> None:
    shell = Shell()
    with pytest.raises(IllegalGeneration):
        shell.commit("g", member_id="m", generation=1)
    with pytest.raises(UnknownGroup):
        shell.commit("g", member_id="m", generation=1, knows_epochs=True)
    assert shell.names() == []


def test_offsets_are_deleted_unless_members_read_the_topic() -> None:
    shell = Shell()
    shell.stable("g")
    for topic in ("orders", "events"):
        shell.commit("g", 5, topic, member_id="member", generation=1)
    places = [("orders", 0), ("events", 0), ("events", 1)]
    answers = shell.does(shell.groups.delete_offsets(Named("delete"), "g", places))
    outcomes = answers["delete"]
    assert isinstance(outcomes, list)
    assert isinstance(outcomes[0], GroupSubscribed)
    assert outcomes[1:] == [None, None]
    assert shell.offset("g") == 5
    assert shell.offset("g", "events") is None
    assert shell.restarted().offset("g", "events") is None
    with pytest.raises(UnknownGroup):
        shell.groups.delete_offsets(Named("delete"), "nobody", places)


def test_offsets_of_a_group_that_is_no_group_of_consumers() -> None:
    """Nobody knows what Kafka Connect reads, for example."""
    shell = Shell()
    shell.stable("g", protocol_type="connect", protocols=(("v0", b"opaque"),))
    with pytest.raises(GroupNotEmpty):
        shell.groups.delete_offsets(Named("delete"), "g", [("orders", 0)])


def test_there_is_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "GROUP_OFFSETS_MAX", 2)
    shell = Shell()
    shell.expire()
    shell.commit("a")
    shell.commit("b")
    shell.commit("b", 2)
    with pytest.raises(Busy):
        shell.commit("c")
    assert shell.names() == ["a", "b"]
    assert shell.groups.deadline_ms == 1 + 10_000, "it looks for what nobody needs"


# --- retention ---------------------------------------------------------------------------------


def test_offsets_and_groups_go_when_nobody_needs_them() -> None:
    """R-DEL-10: so long after the last member left, or after the commit if there never was one."""
    shell = Shell()
    shell.commit("simple")
    shell.stable("members")
    shell.commit("members", member_id="member", generation=1)
    shell.now_ms = 5_000
    leave(shell, "members")
    shell.expire()
    shell.now_ms = RETENTION_MS + 4_999
    shell.expire()
    assert shell.names() == ["members"]
    shell.now_ms = shell.groups.deadline_ms
    shell.expire()
    assert shell.names() == []
    assert shell.restarted().names() == []
    assert shell.groups.table.offset_count == 0


def test_a_clock_that_was_wrong_at_the_start_costs_no_offsets() -> None:
    """R-DEL-10: a machine whose clock is set after the broker has started, by NTP."""
    shell = Shell()
    shell.commit("g", 7)
    again = shell.restarted()
    ahead_ms = 10 * RETENTION_MS
    again.does(again.groups.expire(again.now_ms + ahead_ms, again.now_ms + ahead_ms))
    # By now the wall clock is right, and the sessions' is as it was.
    again.does(again.groups.expire(again.now_ms + 2 * ahead_ms, again.now_ms + ahead_ms // 100))
    assert again.offset("g") == 7
    assert again.restarted().offset("g") == 7


def test_offsets_of_a_topic_that_is_gone_are_forgotten() -> None:
    shell = Shell()
    shell.commit("g", 1, "orders")
    shell.commit("g", 2, "events")
    shell.topic_ids["orders"] = "made again"
    shell.expire()
    shell.now_ms = shell.groups.deadline_ms
    shell.expire()
    again = shell.restarted()
    assert again.offset("g", "orders") is None
    assert again.offset("g", "events") == 2


def test_a_sweep_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_SWEEP_OFFSETS", 4)
    shell = Shell()
    shell.expire()
    for number in range(10):
        shell.commit(f"g{number}")
    shell.now_ms = 10 * RETENTION_MS
    shell.expire()
    assert len(shell.names()) == 8
    assert shell.groups.deadline_ms == 0, "there is more to do at once"
    for _ in range(4):
        shell.expire()
    assert shell.names() == []
    assert shell.groups.deadline_ms > shell.now_ms


# --- groups as a whole -------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_kind() -> None:
    shell = Shell()
    shell.commit("simple")
    shell.stable("classic")
    shell.consumer_joined("consumer")
    listed = [
        (group.name, group.kind, group.state, group.protocol_type) for group in shell.groups.list()
    ]
    assert listed == [
        ("classic", "classic", "Stable", "consumer"),
        ("consumer", "consumer", "Stable", "consumer"),
        ("simple", "classic", "Empty", ""),
    ]
    assert [group.name for group in shell.groups.list(["empty", "Dead"])] == ["simple"]
    assert [group.name for group in shell.groups.list((), ["CONSUMER"])] == ["consumer"]


def test_a_group_with_members_is_not_deleted() -> None:
    shell = Shell()
    shell.stable("classic")
    shell.consumer_joined("consumer")
    shell.commit("simple")
    names = ["classic", "consumer", "simple", "nobody", "simple", ""]
    answers = shell.does(shell.groups.delete(Named("delete"), names))
    outcomes = answers["delete"]
    assert isinstance(outcomes, list)
    kinds = [GroupNotEmpty, GroupNotEmpty, type(None), UnknownGroup, UnknownGroup, InvalidGroup]
    assert [type(outcome) for outcome in outcomes] == kinds
    assert shell.restarted().names() == ["classic", "consumer"]


def test_an_empty_group_is_deleted_with_all_it_had() -> None:
    shell = Shell()
    joined = shell.stable("g")
    shell.commit("g", member_id=joined.member_id, generation=joined.generation)
    leave(shell, "g")
    shell.does(shell.groups.delete(Named("delete"), ["g"]))
    assert shell.names() == []
    assert shell.restarted().names() == []
    assert shell.stable("g").generation == 1, "nothing is left of the old one"


def test_a_group_is_described_by_its_kind() -> None:
    shell = Shell()
    shell.stable("classic")
    shell.consumer_joined("consumer")
    assert shell.groups.describe_classic("classic").members[0].assignment == b"all"
    assert shell.groups.describe_consumer("consumer").members[0].topic_names == ("orders",)
    with pytest.raises(UnknownGroup, match="not a classic group"):
        shell.groups.describe_classic("consumer")
    with pytest.raises(UnknownGroup, match="no group"):
        shell.groups.describe_consumer("nobody")


def test_a_change_of_topics_reaches_consumer_groups() -> None:
    shell = Shell()
    joined = shell.consumer_joined("g")
    assert joined.assignment == {TOPICS["orders"].topic_id: (0, 1)}
    grown = {"orders": TOPICS["orders"]._replace(partition_count=3)}
    shell.groups.on_topics_changed()
    beat = ConsumerHeartbeat(member_id="member", member_epoch=joined.member_epoch)
    answer = shell.does(shell.groups.consumer_heartbeat(Named("beat"), "g", beat, grown, 2))["beat"]
    assert isinstance(answer, ConsumerHeartbeatAnswer)
    assert answer.assignment == {TOPICS["orders"].topic_id: (0, 1, 2)}
