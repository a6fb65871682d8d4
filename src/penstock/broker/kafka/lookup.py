"""From a topic's name or id, as a Kafka client says it, to the partition; and what a request names
more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from penstock.broker.context import Context
from penstock.broker.partitions.partition import Partition
from penstock.model.errors import InvalidRequest, StaleTerm, UnknownTerm

NO_EPOCH = -1

Name = TypeVar("Name")


def find_partition(
    context: Context, topic: str | bytes, partition: int, leader_epoch: int = NO_EPOCH
) -> Partition:
    """The partition, which this broker leads, or why it cannot be used. The leader's epoch, where
    the client says one, must be the one we have (KIP-320)."""
    if isinstance(topic, bytes):
        topic = context.registry.image.topic_by_id(topic).name
    found = context.leaders.find(topic, partition)
    if leader_epoch != NO_EPOCH:
        term = found.replica.term
        if leader_epoch < term:
            raise StaleTerm(f"{found.name} is in leader epoch {term}, not {leader_epoch}.")
        if leader_epoch > term:
            raise UnknownTerm(f"{found.name} is in leader epoch {term}, not yet {leader_epoch}.")
    return found


def repeated(names: Iterable[Name]) -> set[Name]:
    """Those that come more than once. Kafka does nothing for them, and a request that repeats one
    name could ask for any amount of work."""
    return {name for name, count in Counter(names).items() if count > 1}


def check_once(name: Name, repeated_names: set[Name]) -> None:
    """Refuse what the request names more than once."""
    if name in repeated_names:
        raise InvalidRequest(f"The request names {name} more than once: name it once.")
