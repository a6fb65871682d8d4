"""How far the topics reach that a query reads, by what its brokers say now.

Spark's own report of a batch knows how far they reached when the batch was planned, which a batch
of a minute leaves a minute behind. The invariant: a topic counts by its id, so that one of the same
name at another broker, or made anew, does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.model.errors import PenstockError, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.spark.planning.offsets import ByPartition, StreamOffset
from penstock.spark.source.logs import BrokerLogs, Logs

Latest = Callable[[StreamOffset], ByPartition | None]
"""The ends of the partitions of a query's topics, now; None where that cannot be said."""


def latest_at(bootstraps: Iterable[str]) -> Latest:
    """As these brokers say."""
    addresses = sorted(set(bootstraps))

    def ask(place: StreamOffset) -> ByPartition | None:
        try:
            return latest_ends(place, map(BrokerLogs, addresses))
        except PenstockError:
            # The query itself speaks to the broker, and says what is wrong with it.
            return None

    return ask


def latest_ends(place: StreamOffset, logs: Iterable[Logs]) -> dict[TopicPartition, int]:
    """Where the partitions end of the topics that a query has read from."""
    ends: dict[TopicPartition, int] = {}
    for each in logs:
        for topic, topic_id in place.topic_ids.items():
            try:
                extents = each.partitions(topic)
            except UnknownTopic:
                continue
            for number, extent in extents.items():
                if extent.topic_id == topic_id:
                    ends[TopicPartition(topic, number)] = extent.end_offset
    return ends
