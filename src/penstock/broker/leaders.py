"""Who leads a partition, as this broker knows it: itself, or the peer that claims so.

Nobody is asked: leaders tell every broker what they lead (`replication.claims`), and this is where
handlers look. The invariant: a partition that is found here is led here at this moment, as far as
anybody can know; everything else is a refusal that says where to go.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from penstock.broker.partition import Partition
from penstock.broker.partitions import Partitions
from penstock.model.errors import NotLeader, UnknownTopic
from penstock.model.ids import BrokerId
from penstock.model.removal import DeletedPartition, DeletedTopic
from penstock.net.clock import Clock
from penstock.registry.api import Registry
from penstock.registry.image import TopicImage

NO_BROKER: Final = BrokerId(-1)
# How long whoever makes a topic waits until it can be used, and how often that is looked at.
_ELECTION_S_MAX: Final = 2.0
_LOOK_S: Final = 0.01


class Leader(NamedTuple):
    """Who leads a partition; NO_BROKER if nobody is known to."""

    broker: BrokerId
    term: int
    in_sync: tuple[BrokerId, ...]
    """Who has everything that is committed."""


class Leaders:
    """One per broker. All calls come from the event loop."""

    def __init__(
        self, me: BrokerId, registry: Registry, partitions: Partitions, clock: Clock
    ) -> None:
        self._me = me
        self._registry = registry
        self._partitions = partitions
        self._clock = clock

    def of(self, topic: TopicImage, number: int) -> Leader:
        """Who leads the partition."""
        replica = self._partitions.replica(topic.name, number)
        if replica is not None and replica.is_leader:
            return Leader(self._me, replica.term, (self._me,))
        replicas = topic.partitions[number].replicas
        if len(replicas) == 1:
            # Nobody else can lead: whoever asks there is told what is wrong.
            return Leader(replicas[0], 0, replicas)
        return Leader(NO_BROKER, 0, ())

    def find(self, topic: str, number: int) -> Partition:
        """The partition, which this broker leads; NotLeader, or why it cannot be used."""
        try:
            found = self._partitions.find(topic, number)
        except UnknownTopic:
            image = self._registry.image.topic(topic)
            if not 0 <= number < len(image.partitions):
                raise
            raise self._elsewhere(image, number) from None
        if not found.replica.is_leader:
            raise self._elsewhere(self._registry.image.topic(topic), number)
        return found

    def as_deleted(self, topic: TopicImage) -> DeletedTopic:
        """What is remembered of the topic if it is deleted now."""
        partitions = []
        for number in range(len(topic.partitions)):
            replica = self._partitions.replica(topic.name, number)
            if replica is not None:
                start_offset, end_offset = replica.log.start_offset, replica.high_watermark
                partitions.append(DeletedPartition(number, start_offset, end_offset))
        return DeletedTopic(
            name=topic.name,
            topic_id=topic.id,
            at_ms=self._clock.now_ms(),
            partitions=tuple(partitions),
        )

    async def wait_for(self, topic: TopicImage) -> None:
        """Return when all partitions of a new topic have leaders, or after a while."""
        give_up_at = self._clock.monotonic() + _ELECTION_S_MAX
        for number in range(len(topic.partitions)):
            while self.of(topic, number).broker == NO_BROKER:
                if self._clock.monotonic() >= give_up_at:
                    return
                await asyncio.sleep(_LOOK_S)

    def _elsewhere(self, topic: TopicImage, number: int) -> NotLeader:
        leader = self.of(topic, number).broker
        if leader == NO_BROKER:
            return NotLeader(f"{topic.name}-{number} has no leader now: try again.")
        return NotLeader(f"{topic.name}-{number} is led by broker {leader}: ask that one.")
