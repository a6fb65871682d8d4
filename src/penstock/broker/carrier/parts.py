"""What of a broker it takes to look after an internal topic, and to bring batches anywhere.

One bundle for staged writes, for delayed messages and for what carries their batches. Not what
handlers work with, which stands on these (`broker.context`). The invariant: all of it is there
before any of them begins, and until the last has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.topics.topics import Topics
from penstock.model.errors import NotLeader
from penstock.model.ids import TopicPartition
from penstock.net.channel import Channel
from penstock.net.clock import Clock
from penstock.registry.api import Registry
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import Flusher


class Channels(Protocol):
    """Who has connections to the other brokers."""

    def channel(self, broker_id: int) -> Channel | None:
        """One that is open, if there is one."""
        ...


class NoChannels:
    """Of a broker on its own."""

    def channel(self, broker_id: int) -> Channel | None:
        del broker_id
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One per broker."""

    registry: Registry
    topics: Topics
    partitions: Partitions
    leaders: Leaders
    channels: Channels
    driver: Driver
    flusher: Flusher
    clock: Clock
    missing_since_s: dict[str, float] = field(default_factory=dict)
    """Topics that this broker does not know and batches are for, by id."""

    def way_to(self, name: TopicPartition) -> Channel:
        """To the partition's leader, which is another broker: NotLeader if it cannot be reached."""
        topic = self.registry.image.topic(name.topic)
        leader = self.leaders.of(topic, name.partition).broker
        channel = self.channels.channel(leader)
        if channel is None:
            raise NotLeader(f"The leader of {name} cannot be reached now.")
        return channel
