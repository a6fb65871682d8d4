"""Who leads a partition, as this broker knows it: itself, or the peer that claims so.

Nobody is asked: leaders tell every broker what they lead (`replication.peers.claims`), and this is
where handlers look. The invariant: a partition that is found here is led here at this moment, as
far as anybody can know; everything else is a refusal that says where to go.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.model.errors import BatchError, NotCoordinator, NotLeader, StorageError, UnknownTopic
from penstock.model.ids import BrokerId, PartitionId
from penstock.model.removal import DeletedPartition, DeletedTopic
from penstock.net.clock import Clock
from penstock.raft.membership import Node
from penstock.records.header import check_produced
from penstock.registry.api import Registry
from penstock.registry.image import BrokerImage, TopicImage
from penstock.replication.peers.replicas import Leader as LeaderClaim
from penstock.replication.peers.replicas import Replicas
from penstock.replication.replica.transport import TIMING

NO_BROKER: Final = BrokerId(-1)
# Of a leader that nobody knows. Clients take it for no news, and an older term for outdated news.
NO_TERM: Final = -1
# A leader that was not heard for so long is not one that clients should be sent to.
_CLAIM_MS_MAX: Final = 2 * TIMING.election_ms
# How long whoever makes a topic waits until it can be used, and how often that is looked at.
_ELECTION_S_MAX: Final = 2.0
_LOOK_S: Final = 0.01


class Leader(NamedTuple):
    """Who leads a partition; NO_BROKER, and NO_TERM, if nobody is known to."""

    broker: BrokerId
    term: int
    in_sync: tuple[BrokerId, ...]
    """Who has everything that is committed."""


class Leaders:
    """One per broker. All calls come from the event loop."""

    def __init__(
        self,
        me: BrokerId,
        registry: Registry,
        partitions: Partitions,
        clock: Clock,
        replicas: Replicas | None = None,
        known: Callable[[], Mapping[BrokerId, BrokerImage]] = dict,
    ) -> None:
        """replicas: where the other brokers' claims are; None on a lone broker. known: the other
        brokers, also those that the registry has lost."""
        self._me = me
        self._registry = registry
        self._partitions = partitions
        self._clock = clock
        self._replicas = replicas
        self._known = known

    def of(self, topic: TopicImage, number: int) -> Leader:
        """Who leads the partition."""
        partition = self._partitions.get(topic.name, number)
        if partition is not None and (replica := partition.replica).is_leader:
            in_sync = tuple(sorted(BrokerId(node.broker) for node in replica.in_sync))
            return Leader(self._me, replica.term, in_sync or (self._me,))
        claim = self.claim(topic, number)
        if claim is not None:
            in_sync = tuple(sorted(BrokerId(node.broker) for node in claim.told.in_sync))
            return Leader(BrokerId(claim.node.broker), claim.term, in_sync)
        replicas = topic.partitions[number].replicas
        if len(replicas) == 1 and not self._is_awaited(topic, number):
            # Nobody else can lead: whoever asks there is told what is wrong.
            return Leader(replicas[0], NO_TERM, replicas)
        return Leader(NO_BROKER, NO_TERM, ())

    def _is_awaited(self, topic: TopicImage, number: int) -> bool:
        """Whether nothing is wrong with this broker's copy, which does not lead: it is being made,
        or has not elected itself yet. Clients who were sent here would take it for gone."""
        if topic.partitions[number].replicas[0] != self._me:
            return False
        partition = self._partitions.get(topic.name, number)
        if partition is None:
            return not self._partitions.has(topic.name, number)
        return partition.replica.failure is None

    @property
    def brokers(self) -> Mapping[BrokerId, BrokerImage]:
        """To whom clients can be sent: who is registered, and who is heard though the registry has
        lost it. It leads what it led, since that needs no registry."""
        registered = self._registry.image.brokers
        lost = {
            broker.id: broker
            for broker in self._known().values()
            if broker.id not in registered and self._is_heard(broker.node)
        }
        return {**registered, **lost} if lost else registered

    def _is_heard(self, node: Node) -> bool:
        return self._replicas is not None and self._replicas.heard_ms(node) >= self._since_ms()

    def _since_ms(self) -> int:
        return round(self._clock.monotonic() * 1000) - _CLAIM_MS_MAX

    def claim(self, topic: TopicImage, number: int) -> LeaderClaim | None:
        """What the partition's leader says of it, if one was heard lately."""
        if self._replicas is None:
            return None
        claim = self._replicas.leader(PartitionId(topic.id, number), self._since_ms())
        # One of this broker's own that it cannot keep yet, or no longer, helps nobody.
        return None if claim is None or claim.node.broker == self._me else claim

    def told(self, topic: TopicImage, number: int) -> LeaderClaim | None:
        """The same, also where the leader is this broker."""
        partition = self._partitions.get(topic.name, number)
        if partition is None or not (replica := partition.replica).is_leader:
            return self.claim(topic, number)
        told = replica.consensus.claim
        if told is None:
            return None
        # Of a lone copy Raft is not told how far it is.
        told = told._replace(commit_offset=replica.high_watermark)
        return LeaderClaim(replica.consensus.raft.state.me, told.term, told)

    async def of_internal(self, topic: str, make: Callable[[], Awaitable[None]]) -> BrokerImage:
        """Who leads an internal topic of one partition, which is made if there is none; whoever
        does looks after what it keeps. NotCoordinator if nobody does now. That the broker still
        leads it finds out itself, with each thing that it writes."""
        image = self._registry.image
        if topic not in image.topics:
            if image.brokers.keys() == {self._me}:
                # There is nobody else, and the topic is made when there is something to keep.
                return image.brokers[self._me]
            await make()
            image = self._registry.image
        here = self._partitions.get(topic, 0)
        if here is not None and here.replica.is_leader and self._me in image.brokers:
            return image.brokers[self._me]
        found = image.topics.get(topic)
        leader = None if found is None else self.brokers.get(self.of(found, 0).broker)
        if leader is None:
            raise NotCoordinator(f"{topic} has no leader now: try again.")
        return leader

    def find(self, topic: str, number: int) -> Partition:
        """The partition, which this broker leads; NotLeader, or why it cannot be used."""
        try:
            found = self._partitions.find(topic, number)
        except UnknownTopic:
            image = self._registry.image.topic(topic)
            if not 0 <= number < len(image.partitions):
                raise
            raise self._elsewhere(image, number) from None
        except StorageError:
            # The copy here is of no use. Others may be, and one of them lead.
            lost = self._registry.image.topics.get(topic)
            if lost is None or not self.has_others(lost, number):
                raise
            raise self._elsewhere(lost, number) from None
        if not found.replica.is_leader:
            raise self._elsewhere(self._registry.image.topic(topic), number)
        return found

    def has_others(self, topic: TopicImage, number: int) -> bool:
        """Whether another broker has a copy of the partition, or leads it."""
        partitions = topic.partitions
        replicas = partitions[number].replicas if number < len(partitions) else ()
        return any(each != self._me for each in replicas) or self.claim(topic, number) is not None

    def turn_away(self, topic: str, number: int, batch: memoryview) -> None:
        """A producer's batch is refused for now. This broker may lead when those come that were
        sent after it."""
        partition = self._partitions.get(topic, number)
        if partition is not None:
            with contextlib.suppress(BatchError):
                partition.sequences.turn_away(check_produced(batch))

    def as_deleted(self, topic: TopicImage) -> DeletedTopic:
        """What is remembered of the topic if it is deleted now."""
        partitions = []
        for number in range(len(topic.partitions)):
            partition = self._partitions.get(topic.name, number)
            if partition is not None:
                replica = partition.replica
                start_offset, end_offset = replica.log.start_offset, replica.high_watermark
            elif (claim := self.claim(topic, number)) is not None:
                start_offset, end_offset = claim.told.start_offset, claim.told.commit_offset
            else:
                continue
            partitions.append(DeletedPartition(number, start_offset, end_offset))
        return DeletedTopic(
            name=topic.name,
            topic_id=topic.id,
            at_ms=self._clock.now_ms(),
            partitions=tuple(partitions),
        )

    def last_term(self, topic: TopicImage) -> int:
        """The latest that any of the topic's partitions has reached, as far as is known here: one
        of an election that nobody won counts too, since the next is later."""
        known = (self._last_term(topic, number) for number in range(len(topic.partitions)))
        # Nobody tells of one that is offline, or whose broker is not heard: it may have been led
        # in another term than the first.
        unknown = topic.first_term + 1
        return max(unknown if term is None else term for term in known)

    def _last_term(self, topic: TopicImage, number: int) -> int | None:
        terms = []
        if (partition := self._partitions.get(topic.name, number)) is not None:
            terms.append(partition.replica.consensus.raft.state.term)
        if self._replicas is not None:
            # Who was ever heard to lead it, however long ago.
            heard = self._replicas.leader(PartitionId(topic.id, number), since_ms=0)
            terms += [] if heard is None else [heard.term]
        return max(terms, default=None)

    def deleted_ms_ago(self, name: str) -> int | None:
        """When a topic of this name was last deleted, as far as that is remembered. By the clocks
        of two brokers, so it may be negative."""
        deletions = reversed(self._registry.image.deleted_topics)
        at_ms = next((deletion.at_ms for deletion in deletions if deletion.name == name), None)
        return None if at_ms is None else self._clock.now_ms() - at_ms

    async def wait_for(self, topic: TopicImage) -> None:
        """Return when all partitions of a new topic have leaders, or after a while."""
        await self._wait(topic, self._is_led)

    async def wait_heard(self, topic: TopicImage) -> None:
        """Return when the terms of all partitions are known here, or after a while: a broker that
        has no copy and was just started has not heard yet who leads."""
        await self._wait(topic, lambda topic, number: self._last_term(topic, number) is not None)

    async def _wait(self, topic: TopicImage, holds: Callable[[TopicImage, int], bool]) -> None:
        give_up_at = self._clock.monotonic() + _ELECTION_S_MAX
        for number in range(len(topic.partitions)):
            while not holds(topic, number):
                if self._clock.monotonic() >= give_up_at:
                    return
                await asyncio.sleep(_LOOK_S)

    def _is_led(self, topic: TopicImage, number: int) -> bool:
        """Where a lone copy elsewhere is to be asked is known before its broker has heard of the
        topic: what is sent there then is refused as if there were none."""
        leader = self.of(topic, number).broker
        if leader in (NO_BROKER, self._me) or self._replicas is None:
            return leader != NO_BROKER
        return self.claim(topic, number) is not None

    def _elsewhere(self, topic: TopicImage, number: int) -> NotLeader:
        leader = self.of(topic, number).broker
        if leader == NO_BROKER:
            return NotLeader(f"{topic.name}-{number} has no leader now: try again.")
        return NotLeader(f"{topic.name}-{number} is led by broker {leader}: ask that one.")
