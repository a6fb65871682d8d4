"""How far a query's topics reach now."""

from __future__ import annotations

from penstock.model.ids import TopicPartition
from penstock.spark.pipeline.running.lag import latest_at, latest_ends
from penstock.spark.planning.offsets import StreamOffset
from tests.kit.spark.memory_logs import MemoryLogs


def test_each_topic_is_asked_for_where_it_is() -> None:
    """R-SPK-4: not one of the same name elsewhere, and not one that was made anew."""
    place = StreamOffset(
        positions={TopicPartition("a", 0): 1},
        topic_ids={"a": "id of a", "b": "id of b", "gone": "id of gone", "anew": "another"},
    )
    first, second = MemoryLogs(a=[5, 7], b=[9], anew=[3]), MemoryLogs(b=[4], c=[8])
    second.extents = {
        each: extent._replace(topic_id="elsewhere") for each, extent in second.extents.items()
    }
    assert latest_ends(place, [first, second]) == {
        TopicPartition("a", 0): 5,
        TopicPartition("a", 1): 7,
        TopicPartition("b", 0): 9,
    }
    assert latest_at([])(place) == {}
