"""A query's place against topics that have moved on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.model.ids import TopicPartition
from penstock.model.removal import Removal
from penstock.spark.planning.drift import Drift, find_drift, is_behind, last_cuts_ms, split_lost
from penstock.spark.planning.extent import Extent
from penstock.spark.planning.offsets import StreamOffset
from penstock.spark.planning.ranges import OffsetRange

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def drift(
    positions: dict[TopicPartition, int],
    extents: dict[TopicPartition, Extent],
    *,
    selected: bool = True,
    cuts: Sequence[Removal] = (),
    known_ms: int | None = None,
) -> Drift:
    cuts_ms = {} if known_ms is None else {ZERO: known_ms}
    start = StreamOffset(positions=positions, topic_ids={"orders": "old"}, cuts_ms=cuts_ms)
    return find_drift(start, extents, {ZERO: cuts}, lambda _: selected)


def test_nothing_has_moved() -> None:
    found = drift({ZERO: 40}, {ZERO: Extent(10, 100, "old")})
    assert found.begins == {ZERO: 40}
    assert not found.moved
    assert not found.losses


def test_a_new_partition_begins_at_its_first_offset() -> None:
    found = drift({ZERO: 40}, {ZERO: Extent(10, 100, "old"), ONE: Extent(3, 9, "old")})
    assert found.begins == {ZERO: 40, ONE: 3}
    assert found.moved == {ONE: 3}
    assert not found.losses


@pytest.mark.parametrize(
    ("extents", "selected", "expected"),
    [
        ({ZERO: Extent(0, 9, "old"), ONE: Extent(0, 9, "old")}, True, False),
        ({ZERO: Extent(0, 9, "old")}, True, True),
        ({ZERO: Extent(0, 9, "old")}, False, False),
        ({ZERO: Extent(0, 9, "new")}, True, False),
        ({ZERO: Extent(0, 9, None)}, True, False),
        ({}, True, False),
    ],
    ids=["all there", "one missing", "not selected", "made anew", "no id", "topic missing"],
)
def test_an_answer_without_a_partition_of_the_same_topic_is_an_old_one(
    extents: dict[TopicPartition, Extent], selected: bool, expected: bool
) -> None:
    start = StreamOffset(positions={ZERO: 4, ONE: 5}, topic_ids={"orders": "old"})
    assert is_behind(start, extents, lambda _: selected) is expected


def test_retention_was_faster() -> None:
    found = drift({ZERO: 40}, {ZERO: Extent(60, 100, "old")})
    assert found.moved == {ZERO: 60}
    (loss,) = found.losses
    assert (loss.kind, loss.first, loss.end) == ("removed", 40, 60)


def test_the_log_was_cut() -> None:
    found = drift({ZERO: 40}, {ZERO: Extent(0, 30, "old")})
    assert found.moved == {ZERO: 30}
    (loss,) = found.losses
    assert (loss.kind, loss.first, loss.end) == ("cut", 30, 40)
    assert (loss.was_read, loss.resumed_at) == (True, 30)


def truncated(first: int, end: int, at_ms: int) -> Removal:
    return Removal(first_offset=first, end_offset=end, cause="truncated", at_ms=at_ms, detail="")


def test_the_log_was_cut_and_has_grown_again() -> None:
    """R-SPK-3: the offsets are there, and have other messages than those that were read."""
    whole = {ZERO: Extent(0, 100, "old")}
    found = drift({ZERO: 40}, whole, cuts=[truncated(30, 45, 7)], known_ms=0)
    assert found.begins == found.moved == {ZERO: 30}
    (loss,) = found.losses
    assert (loss.kind, loss.first, loss.end, loss.was_read) == ("cut", 30, 40, True)
    # Retention has taken a part of what came instead.
    found = drift(
        {ZERO: 40}, {ZERO: Extent(35, 100, "old")}, cuts=[truncated(30, 45, 7)], known_ms=0
    )
    assert found.moved == {ZERO: 35}
    for cuts, known_ms in (
        ([truncated(30, 45, 7)], 7),  # the query knows it
        ([truncated(30, 45, 7)], None),  # it was so before the query looked for the first time
        ([truncated(40, 45, 7)], 0),  # what it had read is all there
    ):
        assert not drift({ZERO: 40}, whole, cuts=cuts, known_ms=known_ms).losses


def test_what_a_query_knows_of_cuts() -> None:
    cuts = {ZERO: [truncated(30, 45, 9), truncated(20, 25, 7)], ONE: []}
    assert last_cuts_ms(cuts) == {ZERO: 9, ONE: 0}


def test_a_topic_made_anew_begins_again_whatever_its_offsets() -> None:
    for extent in (Extent(0, 100, "new"), Extent(0, 5, "new")):
        found = drift({ZERO: 40}, {ZERO: extent})
        assert found.begins == found.moved == {ZERO: 0}
        (loss,) = found.losses
        assert (loss.kind, loss.first, loss.topic_id) == ("made anew", 40, "old")
    # Where both happen to be the same offset, it is still another topic.
    assert drift({ZERO: 0}, {ZERO: Extent(0, 5, "new")}).moved == {ZERO: 0}


def test_a_topic_that_is_gone() -> None:
    (loss,) = drift({ZERO: 40}, {}).losses
    assert (loss.kind, loss.first, loss.topic_id) == ("deleted", 40, "old")


def test_a_partition_that_is_no_longer_asked_for() -> None:
    found = drift({ZERO: 40}, {}, selected=False)
    assert not found.losses
    assert not found.begins


@pytest.mark.parametrize(
    ("extent", "there", "lost"),
    [
        (Extent(0, 100, "old"), (5, 45), []),
        (Extent(20, 100, "old"), (20, 45), [("removed", 5, 20)]),
        (Extent(60, 100, "old"), (45, 45), [("removed", 5, 45)]),
        (Extent(0, 30, "old"), (5, 30), [("cut", 30, 45)]),
        (Extent(0, 2, "old"), (5, 5), [("cut", 5, 45)]),
        (Extent(20, 30, "old"), (20, 30), [("removed", 5, 20), ("cut", 30, 45)]),
        (Extent(0, 100, "new"), (45, 45), [("made anew", 5, 45)]),
        (None, (45, 45), [("deleted", 5, 45)]),
    ],
)
def test_what_is_left_of_a_range(
    extent: Extent | None, there: tuple[int, int], lost: list[tuple[str, int, int]]
) -> None:
    """Of what was to be read each offset is there, or in one loss: none is counted twice, nor any
    that was not to be read."""
    rest, losses = split_lost(OffsetRange(ZERO, 5, 45), "old", extent)
    assert rest == OffsetRange(ZERO, *there)
    assert [(loss.kind, loss.first, loss.end) for loss in losses] == lost
    assert not any(loss.was_read for loss in losses)
