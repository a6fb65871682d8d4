"""What is there of what was asked for."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.model.removal import Removal, RemovalCause
from penstock.spark.planning.extent import Extent
from penstock.spark.source.logs import find_cuts, is_selected, raise_missing, select_extents
from penstock.spark.source.options import Selection
from tests.kit.spark.memory_logs import MemoryLogs

CAUSES: tuple[RemovalCause, ...] = ("truncated", "deleted")
LOGS = MemoryLogs(orders=[5, 6], bills=[7], __offsets=[9])
ZERO, ONE, BILLS = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("bills", 0),
)


def selected(selection: Selection) -> list[TopicPartition]:
    extents, missing = select_extents(LOGS, selection)
    assert not missing
    return sorted(extents)


def test_by_name_by_pattern_and_by_partition() -> None:
    assert selected(Selection(topics=("orders",))) == [ZERO, ONE]
    assert selected(Selection(pattern="o.*")) == [ZERO, ONE]
    assert selected(Selection(pattern="order")) == []
    assert selected(Selection(partitions=frozenset({ONE, BILLS}))) == [BILLS, ONE]


def test_a_pattern_never_means_the_brokers_own_topics() -> None:
    assert selected(Selection(pattern=".*")) == [BILLS, ZERO, ONE]
    assert not is_selected(Selection(pattern=".*"), TopicPartition("__offsets", 0))
    assert selected(Selection(topics=("__offsets",))) == [TopicPartition("__offsets", 0)]


def test_topics_that_are_not_there() -> None:
    selection = Selection(topics=("nope", "orders"))
    extents, missing = select_extents(LOGS, selection)
    assert sorted(extents) == [ZERO, ONE]
    assert missing == ["nope"]
    with pytest.raises(UnknownTopic, match=r"Topic nope does not exist.*in subscribe"):
        raise_missing(selection, missing)
    raise_missing(selection, [])


def test_a_partition_that_is_not_there() -> None:
    with pytest.raises(InvalidConfig, match=r"assign names orders\[2\]"):
        select_extents(LOGS, Selection(partitions=frozenset({ZERO, TopicPartition("orders", 2)})))


def test_what_is_selected() -> None:
    assert is_selected(Selection(topics=("orders",)), ONE)
    assert not is_selected(Selection(topics=("orders",)), BILLS)
    assert is_selected(Selection(partitions=frozenset({ONE})), ONE)
    assert not is_selected(Selection(partitions=frozenset({ONE})), ZERO)


def test_cuts_are_asked_for_where_there_may_be_some() -> None:
    logs = MemoryLogs(orders=[5, 6])
    removals = [
        Removal(first_offset=3, end_offset=5, cause=cause, at_ms=1, detail="") for cause in CAUSES
    ]
    logs.removed = removals
    extents = {ZERO: Extent(0, 5, "id", may_be_cut=True), ONE: Extent(0, 6, "id")}
    assert find_cuts(logs, extents) == {ZERO: removals[:1]}
