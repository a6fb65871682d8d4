"""What only the broker knows of the topics: settings, where logs begin and end, lag, removals.

Asked once, before the log is read: so the inspected range is settled, and lag is measured against
the same end. Of a data folder nobody can be asked; only whether a log was compacted is seen there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from penstock.client.blocking.admin import BlockingAdmin
from penstock.client.blocking.client import connect_blocking
from penstock.model.errors import DiskFull, UnknownTopic
from penstock.model.removal import Removal

# docs/formats/data-folder.md: there, the log may have gaps that compaction made.
_COMPACTED_MARK: Final = "compaction.journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """One partition, as its leader described it."""

    start_offset: int
    """Where the inspected range begins: the log's start, or the moment that was asked for."""
    log_start_offset: int
    end_offset: int
    size_bytes: int
    segment_count: int
    removals: tuple[Removal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One topic, as the broker described it."""

    settings: Mapping[str, str]
    partitions: Mapping[int, PartitionFacts]
    group_offsets: Mapping[str, Mapping[int, int]]
    """By group and partition: the next offset that the group will read."""

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.settings.get("cleanup_policy", "")


def ask_broker(
    bootstrap: str, topics: Sequence[str], since_ms: int | None
) -> tuple[dict[str, TopicFacts], list[str]]:
    """The facts of these topics, and the names of all topics there are."""
    with connect_blocking(bootstrap, client_name="penstock-inspect") as mq:
        admin = mq.admin
        existing = [summary.name for summary in admin.list_topics()]
        missing = [topic for topic in topics if topic not in existing]
        if missing:
            raise UnknownTopic(
                f"There is no topic {missing[0]!r} to inspect: `penstock topics list` shows "
                f"those there are."
            )
        groups = {group: admin.group_offsets(group, topics) for group in admin.list_groups()}
        facts = {}
        for topic in topics:
            offsets = {
                group: {place.partition: at for place, at in places.items() if place.topic == topic}
                for group, places in groups.items()
            }
            facts[topic] = _topic_facts(
                admin, topic, since_ms, {group: at for group, at in offsets.items() if at}
            )
        return facts, existing


def first_offsets(bootstrap: str, topics: Sequence[str]) -> dict[tuple[str, int], int]:
    """Where the logs begin by now: retention may have gone on while they were read."""
    with connect_blocking(bootstrap, client_name="penstock-inspect") as mq:
        return {
            (topic, partition.partition): partition.log_start_offset
            for topic in topics
            for partition in mq.admin.describe_topic(topic).partitions
        }


def compacted_in_folder(path: str, topics: Collection[str]) -> set[str]:
    """The topics of a data folder of which a partition was compacted."""
    compacted = set()
    for topic in topics:
        folder = os.path.join(path, "topics", topic)
        partitions = os.listdir(folder) if os.path.isdir(folder) else []
        if any(os.path.exists(os.path.join(folder, name, _COMPACTED_MARK)) for name in partitions):
            compacted.add(topic)
    return compacted


def _topic_facts(
    admin: BlockingAdmin,
    topic: str,
    since_ms: int | None,
    group_offsets: Mapping[str, Mapping[int, int]],
) -> TopicFacts:
    description = admin.describe_topic(topic)
    partitions = {}
    for partition in description.partitions:
        if partition.error is not None and not isinstance(partition.error, DiskFull):
            raise partition.error
        start = partition.log_start_offset
        if since_ms is not None:
            moment = datetime.fromtimestamp(since_ms / 1000, UTC)
            start = max(start, admin.find_offset(topic, partition.partition, moment))
        partitions[partition.partition] = PartitionFacts(
            start_offset=min(start, partition.high_watermark),
            log_start_offset=partition.log_start_offset,
            end_offset=partition.high_watermark,
            size_bytes=partition.size_bytes,
            segment_count=partition.segment_count,
            removals=tuple(admin.removals(topic, partition.partition)),
        )
    return TopicFacts(
        settings=description.config, partitions=partitions, group_offsets=group_offsets
    )
