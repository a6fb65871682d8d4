"""Letting preferred brokers lead, at once, because somebody asks for it.

The broker that is asked tells the leaders; each lets go of what it leads. There are no unclean
elections: a broker that does not have everything never leads. The invariant: it takes a bounded
time, and everything that was asked for has an outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from penstock.broker.cluster.movement import Movement
from penstock.broker.partitions.leaders import NO_BROKER, Leaders
from penstock.broker.partitions.partitions import Partitions
from penstock.model.errors import PenstockError
from penstock.model.ids import BrokerId, TopicPartition
from penstock.net.clock import Clock
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import ELECT_LEADERS
from penstock.registry.api import Registry
from penstock.replication.peers.peering import Peering

Outcome = pb.ElectLeadersResponse.Outcome
ELECTED: Final = pb.ElectLeadersResponse.ELECTED
NOT_NEEDED: Final = pb.ElectLeadersResponse.NOT_NEEDED
NOT_AVAILABLE: Final = pb.ElectLeadersResponse.NOT_AVAILABLE
UNKNOWN: Final = pb.ElectLeadersResponse.UNKNOWN
TIMED_OUT: Final = pb.ElectLeadersResponse.TIMED_OUT

# How long is waited at most in all, and for one try; how often is looked, and tried again.
WAIT_S_MAX: Final = 10.0
_TRY_S_MAX: Final = 3.0
_LOOK_S: Final = 0.02
_AGAIN_S: Final = 0.1


class Elections:
    """One per broker."""

    def __init__(
        self,
        me: BrokerId,
        registry: Registry,
        partitions: Partitions,
        leaders: Leaders,
        clock: Clock,
        movement: Movement | None = None,
        peering: Peering | None = None,
    ) -> None:
        """movement, peering: None on a broker on its own, which leads all it has."""
        self._me = me
        self._registry = registry
        self._partitions = partitions
        self._leaders = leaders
        self._clock = clock
        self._movement = movement
        self._peering = peering

    def all(self) -> list[TopicPartition]:
        """What is not led by its preferred broker."""
        return [
            name
            for topic in self._registry.image.topics.values()
            if not topic.deleting
            for number in range(len(topic.partitions))
            if self._judge(name := TopicPartition(topic.name, number)) is not NOT_NEEDED
        ]

    async def elect(
        self,
        names: Iterable[TopicPartition],
        wait_s: float = WAIT_S_MAX,
        *,
        is_forwarded: bool = False,
    ) -> dict[TopicPartition, Outcome]:
        """Let the preferred brokers lead these, and wait until they do. What cannot be now, as long
        as a preferred broker lives, is tried again: leadership may be on its way, or a handover be
        given up. is_forwarded: then it is whoever forwarded it that tries again."""
        give_up_at = self._clock.monotonic() + min(wait_s, WAIT_S_MAX)
        outcomes = await self._try(names, give_up_at, is_forwarded=is_forwarded)
        while not is_forwarded and self._clock.monotonic() < give_up_at:
            again = [name for name, outcome in outcomes.items() if self._may_come(name, outcome)]
            if not again:
                break
            await asyncio.sleep(_AGAIN_S)
            tried = await self._try(again, give_up_at)
            # It came to that while it was asked for.
            outcomes |= {
                name: ELECTED if outcome == NOT_NEEDED else outcome
                for name, outcome in tried.items()
            }
        return outcomes

    def _may_come(self, name: TopicPartition, outcome: Outcome) -> bool:
        topic = self._registry.image.topics.get(name.topic)
        if topic is None or outcome not in (NOT_AVAILABLE, TIMED_OUT):
            return False
        if name.partition >= len(topic.partitions):
            return False  # it was made anew, with fewer
        return topic.partitions[name.partition].replicas[0] in self._registry.image.brokers

    async def _try(
        self, names: Iterable[TopicPartition], give_up_at: float, *, is_forwarded: bool = False
    ) -> dict[TopicPartition, Outcome]:
        """Once; a handover that is to succeed does so within the time of an election or two."""
        outcomes: dict[TopicPartition, Outcome] = {}
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        for name in names:
            outcome = self._judge(name)
            if outcome is None:
                by_leader.setdefault(self._leader(name), []).append(name)
            else:
                outcomes[name] = outcome
        now = self._clock.monotonic()
        give_up_at = min(give_up_at, now + _TRY_S_MAX)
        asked = []
        for leader, led in by_leader.items():
            if leader == self._me:
                outcomes |= self._let_go(led)
            elif is_forwarded:
                outcomes |= dict.fromkeys(led, NOT_AVAILABLE)
            else:
                asked.append(self._ask(leader, led, max(give_up_at - now, 0)))
        for answered in await asyncio.gather(*asked):
            outcomes |= answered
        for name in [name for name, outcome in outcomes.items() if outcome == ELECTED]:
            if not await self._is_seen(name, give_up_at):
                outcomes[name] = TIMED_OUT
        return outcomes

    def _judge(self, name: TopicPartition) -> Outcome | None:
        """What can be said without trying."""
        image = self._registry.image
        topic = image.topics.get(name.topic)
        if topic is None or topic.deleting or not 0 <= name.partition < len(topic.partitions):
            return UNKNOWN
        preferred = topic.partitions[name.partition].replicas[0]
        leader = self._leaders.of(topic, name.partition).broker
        if leader == preferred:
            return NOT_NEEDED
        return NOT_AVAILABLE if leader == NO_BROKER or preferred not in image.brokers else None

    def _leader(self, name: TopicPartition) -> BrokerId:
        topic = self._registry.image.topics[name.topic]
        return self._leaders.of(topic, name.partition).broker

    def _let_go(self, names: list[TopicPartition]) -> dict[TopicPartition, Outcome]:
        outcomes: dict[TopicPartition, Outcome] = {}
        for name in names:
            partition = self._partitions.get(*name)
            is_tried = (
                self._movement is not None
                and partition is not None
                and self._movement.let_lead(partition)
            )
            outcomes[name] = ELECTED if is_tried else NOT_AVAILABLE
        return outcomes

    async def _ask(
        self, leader: BrokerId, names: list[TopicPartition], wait_s: float
    ) -> dict[TopicPartition, Outcome]:
        channel = None if self._peering is None else self._peering.links.channel(leader)
        outcomes: dict[TopicPartition, Outcome] = dict.fromkeys(names, NOT_AVAILABLE)
        if channel is None:
            return outcomes
        request = pb.ElectLeadersRequest(max_wait_ms=round(wait_s * 1000), is_forwarded=True)
        for name in names:
            request.partitions.add(topic=name.topic, partition=name.partition)
        try:
            answer, _ = await channel.call(ELECT_LEADERS, request, timeout_s=wait_s + 1)
        except PenstockError:
            return dict.fromkeys(names, TIMED_OUT)
        for result in answer.results:
            outcomes[TopicPartition(result.topic, result.partition)] = result.outcome
        return outcomes

    async def _is_seen(self, name: TopicPartition, give_up_at: float) -> bool:
        """Whether the preferred broker leads, as this one knows it, in time."""
        while self._judge(name) is not NOT_NEEDED:
            if self._clock.monotonic() >= give_up_at:
                return False
            await asyncio.sleep(_LOOK_S)
        return True
