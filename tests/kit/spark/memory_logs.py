"""Topics in memory, for tests of planning and of tasks: real record batches, no broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from penstock.model.errors import OffsetOutOfRange, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.model.removal import DeletedTopic, Removal
from penstock.records import Columns, build_batch, decode_columns
from penstock.spark.planning.extent import Extent


class MemoryLogs:
    """Every partition has one message per offset, whose time in ms is its offset and whose value
    is the offset as text."""

    def __init__(self, **topics: list[int]) -> None:
        """topics: the ends of the partitions of each."""
        self.extents = {
            TopicPartition(topic, number): Extent(0, end, f"id of {topic}")
            for topic, ends in topics.items()
            for number, end in enumerate(ends)
        }
        self.removed: list[Removal] = []
        self.deleted: list[DeletedTopic] = []
        self.after_chunk: Callable[[], None] = lambda: None
        """Called after each chunk of 10 rows was handed out."""

    def topics(self) -> list[str]:
        return sorted({partition.topic for partition in self.extents})

    def partitions(self, topic: str) -> dict[int, Extent]:
        found = {
            place.partition: extent
            for place, extent in self.extents.items()
            if place.topic == topic
        }
        if not found:
            raise UnknownTopic
        return found

    def find_timestamp(self, topic: str, partition: int, timestamp_ms: int) -> int:
        extent = self.extents[TopicPartition(topic, partition)]
        return min(max(timestamp_ms, extent.start_offset), extent.end_offset)

    def read_range(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        include_headers: bool = False,
        producer_times: bool = False,
    ) -> Iterator[Columns]:
        for first in range(start, end, 10):
            extent = self.partitions(topic)[partition]
            last = min(first + 10, end)
            if first < extent.start_offset or last > extent.end_offset:
                raise OffsetOutOfRange
            batch = b"".join(
                build_batch([(None, b"%d" % offset)], base_offset=offset, timestamp_ms=offset)
                for offset in range(first, last)
            )
            yield decode_columns(batch, first, include_headers, last, producer_times=producer_times)
            self.after_chunk()

    def removals(self, partition: TopicPartition) -> Sequence[Removal]:
        return self.removed

    def deletions(self, topic: str) -> Sequence[DeletedTopic]:
        return self.deleted
