"""Shared groups (KIP-932): the scenarios of tests/golden/groups/share, and what a scenario cannot
say."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.coordination.group.consumer.messages import TopicFacts
from penstock.coordination.group.effects import Effects
from penstock.coordination.group.shared import group as share
from penstock.coordination.group.shared.assignor import assign_shares
from penstock.coordination.group.shared.group import ShareGroup
from penstock.coordination.group.shared.messages import (
    ShareGroupConfig,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
)
from penstock.model.errors import CorruptLog
from tests.golden.groups.share_script import ShareScript
from tests.kit.broker.running import lines_run
from tests.kit.models.consumer_group import topic_id
from tests.kit.models.tickets import Named
from tests.kit.runs.golden_files import run_golden

SCENARIOS = sorted((Path(__file__).parents[4] / "golden" / "groups" / "share").glob("*.txt"))
TOPICS = {"orders": TopicFacts(topic_id("orders"), 10)}


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    """R-DEL-3"""
    run_golden(path, ShareScript().interpret)


def beat(
    group: ShareGroup, member: str, epoch: int = 0, now_ms: int = 0
) -> tuple[ShareHeartbeatAnswer, Effects]:
    request = ShareHeartbeat(
        member_id=member,
        member_epoch=epoch,
        new_incarnation="first",
        topic_names=frozenset(["orders"]) if epoch == 0 else None,
    )
    effects = group.heartbeat(Named("ticket"), request, TOPICS, now_ms)
    [(_, answer)] = effects.answers
    assert isinstance(answer, ShareHeartbeatAnswer), answer
    return answer, effects


@pytest.mark.parametrize("members", [1, 99, 100, 101, 400, 1_000, 1_500])
def test_small_groups_call_often_and_large_ones_do_not(members: int) -> None:
    """Two hundred a second at most, of all members together."""
    records = records_of("m0000")
    group = restored(
        {
            key.replace(b"m0000", b"m%04d" % number): value
            for number in range(members)
            for key, value in records.items()
        }
    )
    answer, _ = beat(group, "m0000", 1)
    assert group.member_count == members
    assert answer.heartbeat_interval_ms == min(max(500, 5 * members), 5_000)


def test_a_crowd_that_joins_is_divided_once_a_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not for each of them: all have something to read after a heartbeat of theirs."""
    crowds: list[int] = []

    def counted(members: Any, *rest: Any) -> Any:
        crowds.append(len(members))
        return assign_shares(members, *rest)

    monkeypatch.setattr(share, "assign_shares", counted)
    group = ShareGroup("g", ShareGroupConfig())
    names = [f"m{number}" for number in range(1_000)]
    told = [beat(group, name)[0] for name in names]
    assert crowds == list(range(1, 102)), "a small group at once, and each time"
    assert not told[-1].assignment
    now_ms = told[-1].heartbeat_interval_ms
    answers = [
        beat(group, name, one.member_epoch, now_ms)[0]
        for name, one in zip(names, told, strict=True)
    ]
    assert crowds[101:] == [1_000]
    assert {answer.member_epoch for answer in answers} == {answers[0].member_epoch}
    numbers = Counter(
        n for one in answers for each in (one.assignment or {}).values() for n in each
    )
    assert numbers == dict.fromkeys(range(10), 100)
    # One that comes alone need not wait.
    later_ms = 2 * now_ms
    beat(group, "m0", -1, later_ms)
    assert beat(group, "late", 0, later_ms)[0].assignment


def test_a_crowd_is_divided_after_a_restart() -> None:
    """Also what no heartbeat had divided yet."""
    group = ShareGroup("g", ShareGroupConfig())
    records: dict[bytes, bytes] = {}
    for number in range(150):
        for record in beat(group, f"m{number}")[1].records:
            assert record.value is not None
            records[record.key] = record.value
    group = restored(records)
    assert beat(group, "m149", 2)[0].assignment
    assert sum(bool(one.assigned) for one in group.describe().members) == 150


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    group = ShareGroup("g", ShareGroupConfig())
    joined, effects = beat(group, "m")
    assert effects.records
    again, effects = beat(group, "m", joined.member_epoch)
    assert (again.assignment, effects.records) == (None, [])


def test_a_steady_heartbeat_costs_the_same_in_a_crowd() -> None:
    """All members beat all the time: what each costs may not grow with them."""

    def lines(members: int) -> int:
        group = ShareGroup("g", ShareGroupConfig())
        names = [f"m{number}" for number in range(members)]
        for name in names:
            beat(group, name)
        now_ms = 5_000
        epoch = beat(group, "m0", 1, now_ms)[0].member_epoch
        for name in names:
            beat(group, name, epoch, now_ms)
        return lines_run(lambda: [beat(group, name, epoch, now_ms) for name in names[:50]])

    assert lines(800) < 1.2 * lines(100)


def records_of(*members: str) -> dict[bytes, bytes]:
    group = ShareGroup("g", ShareGroupConfig())
    records: dict[bytes, bytes] = {}
    for member in members:
        for record in beat(group, member)[1].records:
            assert record.value is not None
            records[record.key] = record.value
    return records


def restored(records: dict[bytes, bytes]) -> ShareGroup:
    return ShareGroup.restore("g", ShareGroupConfig(), records.items(), 0)


def test_targets_that_were_cut_off_are_worked_out_again() -> None:
    records = records_of("a", "b")
    [key] = [key for key in records if json.loads(key) == target("b")]
    del records[key]
    group = restored(records)
    answer, _ = beat(group, "b", 2)
    assert answer.member_epoch == 3
    assert answer.assignment
    assert beat(group, "a", 2)[0].assignment


def target(member: str) -> dict[str, str]:
    return {"kind": "share-target", "group": "g", "member": member}


def test_records_without_the_group_cannot_be_read() -> None:
    records = records_of("a")
    [key] = [key for key in records if json.loads(key)["kind"] == "share-group"]
    del records[key]
    with pytest.raises(CorruptLog, match="do not say what it is"):
        restored(records)


def test_the_group_keeps_the_name_of_its_first_life() -> None:
    group = restored(records_of("a"))
    request = ShareHeartbeat(
        member_id="b",
        member_epoch=0,
        new_incarnation="second",
        topic_names=frozenset(["orders"]),
    )
    group.heartbeat(Named("ticket"), request, TOPICS, 0)
    assert group.facts.incarnation == "first"
