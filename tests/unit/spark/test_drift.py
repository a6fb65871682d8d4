"""A query's place against topics that have moved on."""

from __future__ import annotations

from penstock.model.ids import TopicPartition
from penstock.spark.drift import Drift, find_drift
from penstock.spark.extent import Extent
from penstock.spark.offsets import StreamOffset

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def drift(
    positions: dict[TopicPartition, int],
    extents: dict[TopicPartition, Extent],
    *,
    selected: bool = True,
) -> Drift:
    start = StreamOffset(positions=positions, topic_ids={"orders": "old"})
    return find_drift(start, extents, lambda _: selected)


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
