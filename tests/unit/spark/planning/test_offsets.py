"""What Spark keeps of a stream in its checkpoint."""

from __future__ import annotations

import json

import pytest

from penstock.model.errors import InvalidConfig, InvalidTopic
from penstock.model.ids import TopicPartition, check_topic_name
from penstock.spark.planning.offsets import ABOUT, StreamOffset, add_counts

ZERO, TEN = TopicPartition("orders", 0), TopicPartition("orders", 10)
BILLS = TopicPartition("bills", 0)


def test_the_format() -> None:
    """The text is docs/formats/spark-offsets.md: checkpoints of this version must stay readable."""
    offset = StreamOffset(
        positions={TEN: 5, ZERO: 12, BILLS: 0},
        topic_ids={"orders": "a1", "bills": "b2"},
        lost={ZERO: 100},
        begins={BILLS: 0},
        cuts_ms={ZERO: 0, TEN: 1700},
    )
    text = json.dumps(offset.to_json())
    assert text == (
        '{"bills": {"0": 0}, "orders": {"0": 12, "10": 5}, "$penstock": {"version": 1, '
        '"ids": {"bills": "b2", "orders": "a1"}, "lost": {"orders": {"0": 100}}, '
        '"begins": {"bills": {"0": 0}}, "cuts": {"orders": {"0": 0, "10": 1700}}}}'
    )
    assert StreamOffset.from_json(json.loads(text)) == offset
    assert offset.lost_total == 100


def test_the_same_place_is_the_same_text() -> None:
    one = StreamOffset(positions={ZERO: 1, BILLS: 2}, topic_ids={"orders": "a", "bills": "b"})
    other = StreamOffset(positions={BILLS: 2, ZERO: 1}, topic_ids={"bills": "b", "orders": "a"})
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())


def test_the_extra_entry_cannot_be_a_topic() -> None:
    with pytest.raises(InvalidTopic):
        check_topic_name(ABOUT)


def test_a_checkpoint_of_a_newer_version_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="newer penstock"):
        StreamOffset.from_json({ABOUT: {"version": 2}})


@pytest.mark.parametrize(
    "foreign",
    [
        {"index": 5},
        {"orders": {"x": 5}},
        {"orders": {"0": None}},
        {ABOUT: 1},
        {ABOUT: {"version": "1"}},
    ],
)
def test_a_checkpoint_of_another_source_is_refused(foreign: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig, match="not those of the data source penstock"):
        StreamOffset.from_json(foreign)


def test_counts_add_up() -> None:
    assert add_counts({ZERO: 1, TEN: 2}, {TEN: 3, BILLS: 4}) == {ZERO: 1, TEN: 5, BILLS: 4}
