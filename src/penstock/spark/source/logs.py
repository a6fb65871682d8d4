"""Where messages are read from: the topics of a cluster, or of a data folder without a broker.

`Logs` is what planning and tasks need of either. The invariant: no offset is given that a reader
could not read at that moment: extents end at the high watermark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final, Protocol

from penstock.client.admin.topics import TopicDescription
from penstock.model.errors import InvalidConfig, UnknownTopic
from penstock.model.ids import TopicPartition, is_internal
from penstock.model.removal import DeletedTopic, Removal
from penstock.records import Columns
from penstock.spark.cluster import shared_client
from penstock.spark.planning.extent import Extent
from penstock.spark.source.options import Selection, SourceOptions

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_MS_MAX: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)

# A partition whose leader died has another within seconds, also on a machine that does much else.
# Each look at it takes some of them.
LEADER_PATIENCE_S: Final = 30.0

Extents = dict[TopicPartition, Extent]


class Logs(Protocol):
    """Topics that can be read by ranges of offsets."""

    def topics(self) -> list[str]: ...
    def partitions(self, topic: str) -> Mapping[int, Extent]: ...
    def find_timestamp(self, topic: str, partition: int, timestamp_ms: int) -> int: ...
    def read_range(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        include_headers: bool = False,
        producer_times: bool = False,
    ) -> Iterator[Columns]: ...
    def removals(self, partition: TopicPartition) -> Sequence[Removal]: ...
    def deletions(self, topic: str) -> Sequence[DeletedTopic]: ...


class BrokerLogs:
    """The topics of a cluster, through this process's client of it. Made where it is used."""

    def __init__(self, bootstrap: str) -> None:
        self._client = shared_client(bootstrap)
        self._admin = self._client.admin
        self.read_range = self._client.read_range
        self.deletions = self._admin.deleted_topics

    def topics(self) -> list[str]:
        return [topic.name for topic in self._admin.list_topics()]

    def partitions(self, topic: str) -> dict[int, Extent]:
        """What each partition has; UnknownTopic if there is no such topic."""
        described = self._described(topic)
        may_be_cut = described.config.get("durability") == "os"
        return {
            entry.partition: Extent(
                entry.log_start_offset, entry.high_watermark, described.topic_id, may_be_cut
            )
            for entry in described.partitions
        }

    def _described(self, topic: str) -> TopicDescription:
        """With all partitions online: a query outlasts an election, and does not end for it."""
        give_up_at_s = monotonic() + LEADER_PATIENCE_S
        while True:
            described = self._admin.describe_topic(topic)
            errors = [entry.error for entry in described.partitions if entry.is_offline]
            if not errors:
                return described
            assert errors[0] is not None
            if not errors[0].retriable or monotonic() >= give_up_at_s:
                raise errors[0]

    def find_timestamp(self, topic: str, partition: int, timestamp_ms: int) -> int:
        moment = _EPOCH + timedelta(milliseconds=min(timestamp_ms, _TIME_MS_MAX))
        return self._admin.find_offset(topic, partition, moment)

    def removals(self, partition: TopicPartition) -> Sequence[Removal]:
        return self._admin.removals(*partition)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the place of a group."""
        self._admin.commit_offsets(group, {(*place,): offset for place, offset in offsets.items()})


def open_logs(options: SourceOptions) -> Logs:
    """What the options say to read from."""
    if options.path is not None:
        # Here, so that a process that speaks to a broker need not load how one stores.
        from penstock.spark.folder.folder import Folder

        return Folder(options.path, options.on_damage)
    assert options.bootstrap is not None
    return BrokerLogs(options.bootstrap)


def select_extents(logs: Logs, selection: Selection) -> tuple[Extents, list[str]]:
    """What there is to read of what was asked for, and the topics that are not there."""
    extents: Extents = {}
    missing: list[str] = []
    for topic in _topics(logs, selection):
        try:
            by_partition = logs.partitions(topic)
        except UnknownTopic:
            missing.append(topic)
            continue
        for number, extent in by_partition.items():
            partition = TopicPartition(topic, number)
            if not selection.partitions or partition in selection.partitions:
                extents[partition] = extent
    if selection.pattern is not None:
        return extents, []  # one that was deleted since the list was made does not match any more
    for partition in sorted(selection.partitions):
        if partition not in extents and partition.topic not in missing:
            raise InvalidConfig(
                f"assign names {partition.topic}[{partition.partition}], and the topic has no "
                f"such partition: leave it out."
            )
    return extents, missing


def find_cuts(logs: Logs, extents: Extents) -> dict[TopicPartition, list[Removal]]:
    """What crashes took from the ends of partitions, of those where they may."""
    return {
        partition: [each for each in logs.removals(partition) if each.cause == "truncated"]
        for partition, extent in extents.items()
        if extent.may_be_cut
    }


def is_selected(selection: Selection, partition: TopicPartition) -> bool:
    """Whether the partition is one of those asked for, if it exists."""
    if selection.pattern is not None:
        return _matches(selection.pattern, partition.topic)
    return partition.topic in selection.topics or partition in selection.partitions


def raise_missing(selection: Selection, missing: Sequence[str]) -> None:
    """Raise UnknownTopic if a topic that was named is not there."""
    if missing:
        names = ", ".join(missing)
        verb = "does" if len(missing) == 1 else "do"
        raise UnknownTopic(
            f"Topic {names} {verb} not exist: create it first, or correct the name in "
            f"{'assign' if selection.partitions else 'subscribe'}."
        )


def _topics(logs: Logs, selection: Selection) -> list[str]:
    if selection.pattern is not None:
        return [topic for topic in logs.topics() if _matches(selection.pattern, topic)]
    return sorted({*selection.topics, *(partition.topic for partition in selection.partitions)})


def _matches(pattern: str, topic: str) -> bool:
    """The whole name, as in Kafka; the broker's own topics are never meant."""
    return re.fullmatch(pattern, topic) is not None and not is_internal(topic)
