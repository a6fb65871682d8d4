"""Classic groups: the scenarios of tests/golden/groups/classic, and what a scenario cannot say."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.messages import (
    GroupConfig,
    GroupState,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from penstock.model.errors import CorruptLog, GroupNotEmpty, RebalanceInProgress, UnknownMember
from tests.golden.groups.classic_script import ClassicScript, subscription
from tests.kit.models.tickets import Named
from tests.kit.runs.golden_files import run_golden

SCENARIOS = sorted((Path(__file__).parents[4] / "golden" / "groups" / "classic").glob("*.txt"))
CONFIG = GroupConfig(initial_rebalance_delay_ms=0)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    """R-DEL-4, R-DEL-5: members and their generations."""
    run_golden(path, ClassicScript().interpret)


def join_request(name: str, member_id: str = "", metadata: bytes | None = None) -> JoinRequest:
    return JoinRequest(
        member_id=member_id,
        new_member_id=name,
        client_id=name,
        client_host="/10.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(("range", subscription("t") if metadata is None else metadata),),
    )


def stable_group(count: int) -> ClassicGroup:
    group = ClassicGroup("g", CONFIG)
    for number in range(count):
        group.join(Named(number), join_request(f"m{number}"), 0)
    group.expire(0)
    for number in reversed(range(count)):
        group.sync(
            Named(number),
            SyncRequest(member_id=f"m{number}", generation=1, assignments={}),
            now_ms=0,
        )
    assert group.state is GroupState.STABLE
    return group


def test_ten_that_leave_one_by_one_make_one_rebalance() -> None:
    group = stable_group(12)
    for number in range(10):
        leaving = LeaveRequest(members=(LeavingMember(member_id=f"m{number}"),))
        effects = group.leave(Named(number), leaving, 0)
        assert len(effects.answers) == 1
    assert (group.state, group.generation) == (GroupState.PREPARING_REBALANCE, 1)
    group.join(Named("a"), join_request("m10", "m10"), 0)
    effects = group.join(Named("b"), join_request("m11", "m11"), 0)
    assert len(effects.answers) == 2
    assert group.generation == 2


def test_all_that_are_lost_at_once_are_lost_in_one_rebalance() -> None:
    group = stable_group(10)
    effects = group.expire(10_000)
    assert (group.state, group.generation, group.member_count) == (GroupState.EMPTY, 2, 0)
    assert len(effects.records) == 1
    assert group.empty_since_ms == 10_000


def test_a_heartbeat_does_not_look_at_the_other_members() -> None:
    """One of a thousand members keeps its session, and the wake stays where it was."""
    group = stable_group(1_000)
    beat = HeartbeatRequest(member_id="m7", generation=1)
    group.heartbeat(Named("t"), beat, 9_000)
    assert group.deadline_ms == 10_000
    group.expire(10_000)
    assert group.member_count == 1
    assert group.deadline_ms == 19_000


def test_commits_of_those_who_are_no_members() -> None:
    group = ClassicGroup("g", CONFIG)
    group.check_commit("", None, -1, 0)
    with pytest.raises(UnknownMember):
        group.check_commit("m0", None, 1, 0)
    group = stable_group(1)
    with pytest.raises(UnknownMember, match="only they may commit"):
        group.check_commit("", None, -1, 0)


def test_commits_while_a_generation_is_completed() -> None:
    group = ClassicGroup("g", CONFIG)
    group.join(Named("t"), join_request("m0"), 0)
    group.expire(0)
    with pytest.raises(RebalanceInProgress):
        group.check_commit("m0", None, 1, 0)


def test_a_commit_is_a_heartbeat() -> None:
    group = stable_group(1)
    group.check_commit("m0", None, 1, 9_000)
    group.expire(10_000)
    assert group.member_count == 1
    group.expire(19_000)
    assert group.member_count == 0


def test_only_an_empty_group_is_deleted() -> None:
    group = stable_group(1)
    with pytest.raises(GroupNotEmpty):
        group.delete()
    group.expire(10_000)
    [record] = group.delete().records
    assert record.value is None
    assert group.state is GroupState.DEAD


def test_subscribed_topics_are_unknown_if_one_member_is() -> None:
    group = ClassicGroup("g", CONFIG)
    assert group.subscribed_topics() is None
    group.join(Named("a"), join_request("a"), 0)
    assert group.subscribed_topics() == frozenset({"t"})
    group.join(Named("b"), join_request("b", metadata=b"?"), 0)
    assert group.subscribed_topics() is None


def test_a_damaged_record_restores_nothing() -> None:
    with pytest.raises(CorruptLog):
        ClassicGroup.restore("g", CONFIG, b"{}", 0)
