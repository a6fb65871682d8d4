"""The table of delayed messages: what the topic's records make of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.coordination.delay import records, table
from penstock.coordination.delay.records import (
    Arrived,
    Cancelled,
    Decided,
    Due,
    Fired,
    Head,
    LaneRecord,
    Share,
    encode_cancelled,
    encode_decided,
    encode_lane,
    encode_names,
    key_hash,
)
from penstock.coordination.delay.schedule import NEVER, Schedule, encode_schedule
from penstock.coordination.delay.table import DelayedTable
from penstock.model.errors import CorruptLog
from tests.golden.delays.delay_script import DelayScript
from tests.kit.runs.golden_files import run_golden

SCENARIOS = sorted((Path(__file__).parents[3] / "golden" / "delays").glob("*.txt"))
SCHEDULE = Schedule(
    name="s",
    cron="* * * * *",
    time_zone="",
    topic="orders",
    key=b"k",
    value=b"v",
    headers={"h": b"x"},
    next_due_ms=60_000,
)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    """R-DEL-13."""
    run_golden(path, DelayScript().interpret)


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 2


def lane(known: DelayedTable, number: int = 1, producer_id: int = 7) -> None:
    record = LaneRecord(
        lane=number, topic="orders", topic_id="id", partition=number, producer_id=producer_id
    )
    known.apply(records.LANE, encode_lane(record), 0)


def wait(known: DelayedTable, *due_ms: int, offset: int = 0, number: int = 1) -> None:
    head = Head(lane=number, due_ms=due_ms, sizes=(10,) * len(due_ms))
    known.apply_head(head, offset, ())


def decide(
    known: DelayedTable, frontier: Due, *shares: Share, arrived: tuple[Arrived, ...] = ()
) -> None:
    decided = Decided(frontier=frontier, shares=shares, arrived=arrived)
    known.apply(records.DECIDED, encode_decided(decided), 0)


def test_messages_wait_are_due_and_arrive() -> None:
    known = DelayedTable()
    lane(known)
    wait(known, 5, 9)
    assert (known.pending, known.pending_bytes) == (2, 20)
    assert known.floor == Due(0, 0)
    decide(known, Due(5, 1), Share(1, 1, 10))
    found = known.lanes[1]
    assert (found.due, found.done, known.floor) == (1, Due(0, 0), Due(0, 0))
    decide(known, Due(9, 2), Share(1, 1, 10), arrived=(Arrived(1, 1, 10, 7, 1, Due(5, 1)),))
    assert (found.due, found.done, found.sequence) == (1, Due(5, 1), 1)
    assert known.floor == Due(5, 1)
    decide(known, Due(9, 2), arrived=(Arrived(1, 1, 10, 7, 2, Due(9, 2)),))
    assert (known.pending, known.pending_bytes, found.due) == (0, 0, 0)
    assert known.floor == known.frontier == Due(9, 2)


def test_a_lane_that_was_idle_stands_at_the_frontier() -> None:
    """Nothing of it lies before what is due next."""
    known = DelayedTable()
    lane(known, 1)
    lane(known, 2)
    wait(known, 5, number=1)
    wait(known, 9, number=2)
    decide(known, Due(5, 1), Share(1, 1, 10))
    decide(known, Due(9, 2), Share(2, 1, 10))
    assert known.lanes[2].done == Due(5, 1)
    assert known.floor == Due(0, 0), "lane 1 has not arrived"


def test_the_frontier_never_goes_back() -> None:
    known = DelayedTable()
    decide(known, Due(9, 2))
    decide(known, Due(5, 7))
    assert known.frontier == Due(9, 2)


def test_moved_messages_count_once() -> None:
    known = DelayedTable()
    lane(known)
    wait(known, 5)
    known.apply_head(Head(lane=1, due_ms=(5,), sizes=(10,), numbers=(1,)), 77, ())
    assert known.pending == 1


def test_cancelled_messages_and_lanes_that_are_gone_count_no_more() -> None:
    known = DelayedTable()
    lane(known, 1)
    lane(known, 2)
    wait(known, 5, 6, number=1)
    wait(known, 5, number=2)
    known.apply(records.CANCELLED, encode_cancelled([Cancelled(Due(5, 1), 1, 10)]), 0)
    assert known.pending == 2
    known.apply(records.LANES_GONE, encode_names([1, 99]), 0)
    assert (known.pending, known.pending_bytes) == (1, 10)
    assert known.lane_of("id", 1) is None
    assert known.lane_of("id", 2) is known.lanes[2]


def test_a_lane_that_begins_anew_keeps_what_waits() -> None:
    known = DelayedTable()
    lane(known)
    wait(known, 5)
    decide(known, Due(5, 1), Share(1, 1, 10), arrived=(Arrived(1, 0, 0, 7, 3, Due(0, 0)),))
    lane(known, producer_id=8)
    assert (known.lanes[1].producer_id, known.lanes[1].sequence) == (8, 0)
    assert (known.pending, known.lanes[1].due) == (1, 1)


def test_keys_in_order_are_remembered_until_they_have_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "DELAY_ORDERED_KEYS_MAX", 2)
    known = DelayedTable()
    lane(known)
    keys = [key_hash(1, bytes([number])) for number in range(2)]
    known.apply_head(Head(lane=1, due_ms=(5, 9), sizes=(1, 1), is_ordered=True), 0, keys)
    known.apply_head(Head(lane=1, due_ms=(3,), sizes=(1,), is_ordered=True), 9, keys[:1])
    assert known.ordered == {keys[0]: 5, keys[1]: 9}
    assert not known.has_room_for_keys(1)
    decide(known, Due(1500, 1))
    assert known.has_room_for_keys(2)
    assert known.ordered == {}
    assert not known.has_room_for_keys(3)


def test_a_lane_that_is_dropped_frees_its_keys() -> None:
    known = DelayedTable()
    lane(known)
    keys = [key_hash(1, b"k"), key_hash(2, b"k")]
    known.apply_head(Head(lane=1, due_ms=(5, 9), sizes=(1, 1), is_ordered=True), 0, keys)
    known.apply(records.LANES_GONE, encode_names([1]), 9)
    assert known.ordered == {keys[1]: 9}


def test_no_lane_gets_the_number_of_one_that_messages_were_written_for() -> None:
    known = DelayedTable()
    known.apply_head(Head(lane=7, due_ms=(5,), sizes=(1,)), 0, ())
    assert known.next_lane == 8


def test_where_the_messages_of_a_request_are_is_remembered() -> None:
    """Of one that came again since its end was lost, also where that is."""
    known, token = DelayedTable(), b"t" * 16
    for index, offset in ((0, 10), (1, 12), (2, 30)):
        head = Head(
            lane=1, due_ms=(5,), sizes=(1,), token=token, request_index=index, request_messages=3
        )
        known.apply_head(head, offset, ())
    assert known.tokens == {token: (10, 14, 30, 32)}
    other = DelayedTable()
    other.load(known.encode())
    assert other.tokens == known.tokens


def test_requests_are_remembered_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "DELAY_TOKENS_MAX", 2)
    known = DelayedTable()
    for number in range(3):
        head = Head(lane=1, due_ms=(5,), sizes=(1,), token=bytes([number]) * 16)
        known.apply_head(head, 10 * number, ())
    assert known.tokens == {b"\1" * 16: (10, 12), b"\2" * 16: (20, 22)}


def test_schedules_come_and_go() -> None:
    known = DelayedTable()
    known.apply(records.SCHEDULE, encode_schedule(SCHEDULE), 0)
    assert known.schedules == {"s": SCHEDULE}
    fired = Head(lane=1, due_ms=(60_000,), sizes=(1,), fired=Fired("s", 120_000))
    known.apply_head(fired, 0, ())
    assert (known.schedules["s"].next_due_ms, known.schedules["s"].published) == (120_000, 1)
    known.apply_head(Head(lane=1, due_ms=(1,), sizes=(1,), fired=Fired("other", 1)), 0, ())
    known.apply_head(Head(lane=1, due_ms=(1,), sizes=(1,), fired=Fired("s", NEVER)), 0, ())
    assert known.schedules == {}
    known.apply(records.SCHEDULE, encode_schedule(SCHEDULE), 0)
    known.apply(records.SCHEDULE_GONE, encode_names(["s"]), 0)
    assert known.schedules == {}


def busy() -> DelayedTable:
    known = DelayedTable()
    lane(known, 1)
    lane(known, 2)
    wait(known, 5, 9)
    head = Head(
        lane=2, due_ms=(7,), sizes=(3,), is_ordered=True, token=b"t" * 16, request_messages=1
    )
    known.apply_head(head, 50, [key_hash(2, b"k")])
    known.apply(records.SCHEDULE, encode_schedule(SCHEDULE), 0)
    decide(known, Due(7, 51), Share(1, 1, 10), Share(2, 1, 3))
    return known


def test_a_checkpoint_says_everything() -> None:
    """R-DEL-13: whoever begins there goes on as who read everything, also if it read some of what
    came before."""
    known, other = busy(), DelayedTable()
    wait(other, 1, number=9)
    decide(other, Due(3, 3), Share(8, 1, 1), arrived=(Arrived(9, 5, 5, 5, 5, Due(1, 1)),))
    other.apply(records.CANCELLED, encode_cancelled([Cancelled(Due(5, 1), 1, 10)]), 0)
    other.apply(records.CHECKPOINT, known.encode(), 0)
    assert other.is_whole
    assert other.encode() == known.encode()
    for each in (known, other):
        lane(each, 3)
        wait(each, 11, number=3)
        decide(each, Due(9, 60), arrived=(Arrived(1, 1, 10, 7, 1, Due(5, 1)),))
    assert other.encode() == known.encode()
    assert (other.pending, other.floor, other.next_lane) == (known.pending, known.floor, 4)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"frontier":1}'])
def test_a_checkpoint_that_cannot_be_read_is_corruption(data: bytes) -> None:
    with pytest.raises(CorruptLog, match="checkpoint"):
        DelayedTable().apply(records.CHECKPOINT, data, 0)


def test_a_record_of_no_kind_is_corruption() -> None:
    with pytest.raises(CorruptLog, match="of no kind"):
        DelayedTable().apply(b"?", b"", 0)
