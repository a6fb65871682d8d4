"""The cluster as one broker can describe it: brokers, and where copies are and should be.

Most of it this broker knows: the registry's image, and what leaders tell everybody. How large
things are and how far new copies have come is asked of the brokers themselves; one that does not
answer in time is left without. The invariant: nobody's silence keeps the description back for long.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final

from penstock.broker.partitions.leaders import NO_BROKER, Leaders
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.model.errors import PenstockError
from penstock.model.ids import BrokerId
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DESCRIBE_BROKER
from penstock.raft.membership import Node
from penstock.raft.reconfiguration import is_reached
from penstock.registry.api import Registry
from penstock.registry.image import ClusterImage, TopicImage
from penstock.replication.peers.peering import Peering

_ANSWER_S_MAX: Final = 2.0
_UNKNOWN: Final = -1


class ClusterView:
    """One per broker."""

    def __init__(
        self,
        me: BrokerId,
        registry: Registry,
        partitions: Partitions,
        leaders: Leaders,
        peering: Peering | None = None,
    ) -> None:
        """peering: None on a broker on its own."""
        self._me = me
        self._registry = registry
        self._partitions = partitions
        self._leaders = leaders
        self._peering = peering

    async def describe(self, *, moving_only: bool = False) -> pb.DescribeClusterResponse:
        image = self._registry.image
        told = await self._ask_all(image)
        response = pb.DescribeClusterResponse(
            cluster_id=image.cluster_id,
            controller=_UNKNOWN if image.controller is None else image.controller,
            is_alone=self._peering is None,
        )
        lags = {
            (learner.topic, learner.partition, learner.broker): learner
            for answer in told.values()
            for learner in answer.learners
        }
        offline = _offline_copies(told)
        leads: Counter[int] = Counter()
        copies: Counter[int] = Counter()
        # Dead ones too, as long as something of them is or should be somewhere.
        known = set(image.brokers)
        for topic in sorted(image.topics.values(), key=lambda topic: topic.name):
            if topic.deleting:
                continue
            for number in range(len(topic.partitions)):
                described = self._partition(image, topic, number)
                leads[described.leader] += 1
                # Without a leader nobody tells who has one now.
                is_led = described.leader != NO_BROKER
                copies.update(described.voters if is_led else described.target)
                known.update(map(BrokerId, (*described.voters, *described.target)))
                for broker, reason in offline.get((topic.name, number), ()):
                    described.offline.add(broker=broker, reason=reason)
                if moving_only and described.is_reached:
                    continue
                for learner in described.learners:
                    lag = lags.get((topic.name, number, learner.broker))
                    learner.offset = _UNKNOWN if lag is None else lag.offset
                    learner.bytes_left = _UNKNOWN if lag is None else lag.bytes_left
                response.partitions.append(described)
        for broker in sorted(known):
            answer = told.get(broker)
            alive = image.brokers.get(broker)
            response.brokers.add(
                id=broker,
                address="" if alive is None else alive.address,
                host="" if alive is None else alive.host,
                is_alive=alive is not None,
                is_drained=broker in image.drained,
                leaders=leads[broker],
                replicas=copies[broker],
                bytes=_UNKNOWN if answer is None else answer.bytes,
                disk="" if answer is None else answer.disk,
            )
        return response

    def describe_broker(self) -> pb.DescribeBrokerResponse:
        """What only this broker knows."""
        response = pb.DescribeBrokerResponse()
        if (refused := self._partitions.disk_refuses()) is not None:
            response.disk = refused.message
        for partition in self._partitions.all():
            response.bytes += partition.replica.log.size_bytes
            if partition.replica.is_leader:
                self._add_learners(response, partition)
            if (failure := partition.replica.failure) is not None:
                topic, number = partition.name
                response.offline.add(topic=topic, partition=number, reason=failure.message)
        for (topic, number), error in self._partitions.offline_copies.items():
            response.offline.add(topic=topic, partition=number, reason=error.message)
        return response

    def _add_learners(self, response: pb.DescribeBrokerResponse, partition: Partition) -> None:
        if self._peering is None:
            return
        replica = partition.replica
        participant = self._peering.replicas.find(replica.partition)
        learners = None if participant is None else participant.membership.learners
        if participant is None or not learners:
            return
        matches, log = participant.matches, replica.log
        length = max(log.next_offset - log.first_offset, 1)
        for node in sorted(learners):
            offset = matches.get(node, 0)
            missing = max(log.next_offset - max(offset, log.first_offset), 0)
            response.learners.add(
                topic=partition.name.topic,
                partition=partition.name.partition,
                broker=node.broker,
                offset=offset,
                bytes_left=log.size_bytes * missing // length,
            )

    def _partition(
        self, image: ClusterImage, topic: TopicImage, number: int
    ) -> pb.DescribeClusterResponse.Partition:
        target = topic.partitions[number].replicas
        described = pb.DescribeClusterResponse.Partition(
            topic=topic.name, partition=number, leader=NO_BROKER, target=target
        )
        leader = self._leaders.told(topic, number)
        if leader is None:
            # Where a target was changed after all copies died, only these tell who has one.
            first = topic.partitions[number].voters
            described.voters.extend(sorted(node.broker for node in first))
        else:
            told = leader.told
            alive: dict[int, Node] = {key: broker.node for key, broker in image.brokers.items()}
            described.leader = leader.node.broker
            described.term = leader.term
            described.commit_offset = told.commit_offset
            described.voters.extend(sorted(node.broker for node in told.membership.voters))
            described.in_sync.extend(sorted(node.broker for node in told.in_sync))
            for node in sorted(told.membership.learners):
                described.learners.add(broker=node.broker)
            described.is_reached = told.is_settled and is_reached(target, told.membership, alive)
        return described

    async def _ask_all(self, image: ClusterImage) -> dict[BrokerId, pb.DescribeBrokerResponse]:
        others = [broker for broker in image.brokers if broker != self._me]
        answers = await asyncio.gather(*map(self._ask, others))
        told = {
            broker: answer
            for broker, answer in zip(others, answers, strict=True)
            if answer is not None
        }
        return {self._me: self.describe_broker(), **told}

    async def _ask(self, broker: BrokerId) -> pb.DescribeBrokerResponse | None:
        channel = None if self._peering is None else self._peering.links.channel(broker)
        if channel is None:
            return None
        try:
            request = pb.DescribeBrokerRequest()
            answer, _ = await channel.call(DESCRIBE_BROKER, request, timeout_s=_ANSWER_S_MAX)
        except PenstockError:
            return None
        return answer


def _offline_copies(
    told: Mapping[BrokerId, pb.DescribeBrokerResponse],
) -> dict[tuple[str, int], list[tuple[BrokerId, str]]]:
    """Who has a copy of a partition that is of no use, and why."""
    offline: dict[tuple[str, int], list[tuple[BrokerId, str]]] = {}
    for broker, answer in sorted(told.items()):
        for copy in answer.offline:
            offline.setdefault((copy.topic, copy.partition), []).append((broker, copy.reason))
    return offline
