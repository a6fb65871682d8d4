"""The cluster, for people and tools: described, and its partitions placed otherwise.

One call each, no state. A change is answered when the registry has it; `status` tells how far the
moving is, and goes on whether or not anybody looks. The invariant: every change may be asked for
again, since it says what should be and not what to do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from penstock.client.connection.routes import Routes
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import CHANGE_PLACEMENT, DESCRIBE_CLUSTER, ELECT_LEADERS

ElectionOutcome = Literal["elected", "not needed", "not available", "unknown", "timed out"]

_ELECTION_OUTCOMES: Final[Mapping[int, ElectionOutcome]] = {
    pb.ElectLeadersResponse.ELECTED: "elected",
    pb.ElectLeadersResponse.NOT_NEEDED: "not needed",
    pb.ElectLeadersResponse.NOT_AVAILABLE: "not available",
    pb.ElectLeadersResponse.UNKNOWN: "unknown",
    pb.ElectLeadersResponse.TIMED_OUT: "timed out",
}
_NOBODY: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """A broker, dead or alive."""

    broker: int
    address: str
    """Empty if it is dead."""
    host: str
    is_alive: bool
    is_drained: bool
    is_controller: bool
    leaders: int
    replicas: int
    size_bytes: int | None
    """None if it did not say."""
    disk: str = ""
    """What its disk refuses now, as when it is full; empty if nothing is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerStatus:
    """A copy that is being made; None where its leader did not say."""

    broker: int
    offset: int | None
    bytes_left: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineCopy:
    """A copy that its broker, which is alive, cannot use."""

    broker: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """Where the copies of a partition are, and should be."""

    topic: str
    partition: int
    leader: int | None
    term: int
    target: tuple[int, ...]
    """Who should have a copy; the first should lead."""
    voters: tuple[int, ...]
    """Who has one that counts; without a leader, who had one when the partition was made."""
    in_sync: tuple[int, ...]
    learners: tuple[LearnerStatus, ...]
    is_reached: bool
    """Whether the copies are where they should be."""
    commit_offset: int
    offline: tuple[OfflineCopy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    cluster_id: str
    is_alone: bool
    """Whether it is one broker without a registry, which can have no others."""
    brokers: tuple[BrokerStatus, ...]
    """Those that are alive, and those that are not and have copies or should have."""
    partitions: tuple[PartitionStatus, ...]

    def is_dead(self, broker: int) -> bool:
        return not any(each.broker == broker and each.is_alive for each in self.brokers)

    def has_majority(self, partition: PartitionStatus) -> bool:
        """Whether enough of a partition's copies are with brokers that live and can use them: else
        it can be neither written nor read."""
        if partition.leader is not None:
            return True
        useless = {copy.broker for copy in partition.offline}

        def is_enough(copies: tuple[int, ...]) -> bool:
            well = sum(not self.is_dead(each) and each not in useless for each in copies)
            return 2 * well > len(copies)

        # Either may be who votes: without a leader nobody tells how far a move has come.
        return is_enough(partition.target) or is_enough(partition.voters or partition.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition's target before and after a change."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]


class ClusterAdmin:
    """Made by `Client.cluster`."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def status(self, *, moving_only: bool = False) -> ClusterStatus:
        """moving_only: of the partitions, those whose copies are not where they should be."""
        request = pb.DescribeClusterRequest(moving_only=moving_only)
        answer = await self._routes.call_any(DESCRIBE_CLUSTER, request)
        return ClusterStatus(
            cluster_id=answer.cluster_id,
            is_alone=answer.is_alone,
            brokers=tuple(_broker(entry, answer.controller) for entry in answer.brokers),
            partitions=tuple(map(_partition, answer.partitions)),
        )

    async def move(
        self,
        topic: str,
        brokers: Sequence[int],
        partitions: Collection[int] = (),
        *,
        dry_run: bool = False,
    ) -> list[Move]:
        """Put partitions of a topic, or all of them, on these brokers; the first should lead."""
        request = pb.ChangePlacementRequest(dry_run=dry_run)
        for partition in partitions:
            request.move.moves.add(topic=topic, partition=partition, replicas=brokers)
        if not partitions:
            request.move.moves.add(topic=topic, replicas=brokers)
        return await self._change(request)

    async def replicate(self, topic: str, replicas: int, *, dry_run: bool = False) -> list[Move]:
        """Let all partitions of a topic have so many copies."""
        replication = pb.ChangePlacementRequest.Replication(topic=topic, replicas=replicas)
        return await self._change(
            pb.ChangePlacementRequest(replication=replication, dry_run=dry_run)
        )

    async def drain(
        self, broker: int, onto: int | None = None, *, dry_run: bool = False
    ) -> list[Move]:
        """Take everything off a broker, dead or alive; onto the one that replaces it, if named."""
        drain = pb.ChangePlacementRequest.Drain(broker=broker, onto=onto)
        return await self._change(pb.ChangePlacementRequest(drain=drain, dry_run=dry_run))

    async def add(self, broker: int, *, dry_run: bool = False) -> list[Move]:
        """End a broker's drain, and spread copies onto it."""
        add = pb.ChangePlacementRequest.Add(broker=broker)
        return await self._change(pb.ChangePlacementRequest(add=add, dry_run=dry_run))

    async def rebalance(self, *, dry_run: bool = False) -> list[Move]:
        """Spread copies and preferred leaders evenly."""
        rebalance = pb.ChangePlacementRequest.Rebalance()
        return await self._change(pb.ChangePlacementRequest(rebalance=rebalance, dry_run=dry_run))

    async def elect_leaders(
        self, partitions: Collection[tuple[str, int]] = (), wait_ms: int = 5_000
    ) -> dict[TopicPartition, ElectionOutcome]:
        """Let the preferred brokers lead these partitions, or all that they do not lead."""
        request = pb.ElectLeadersRequest(max_wait_ms=wait_ms)
        for topic, partition in partitions:
            request.partitions.add(topic=topic, partition=partition)
        answer = await self._routes.call_any(ELECT_LEADERS, request)
        return {
            TopicPartition(result.topic, result.partition): _ELECTION_OUTCOMES[result.outcome]
            for result in answer.results
        }

    async def _change(self, request: pb.ChangePlacementRequest) -> list[Move]:
        answer = await self._routes.call_any(CHANGE_PLACEMENT, request)
        return [
            Move(
                topic=entry.topic,
                partition=entry.partition,
                before=tuple(entry.before),
                after=tuple(entry.after),
            )
            for entry in answer.moves
        ]


def _broker(entry: pb.DescribeClusterResponse.Broker, controller: int) -> BrokerStatus:
    return BrokerStatus(
        broker=entry.id,
        address=entry.address,
        host=entry.host,
        is_alive=entry.is_alive,
        is_drained=entry.is_drained,
        is_controller=entry.id == controller,
        leaders=entry.leaders,
        replicas=entry.replicas,
        size_bytes=_known(entry.bytes),
        disk=entry.disk,
    )


def _partition(entry: pb.DescribeClusterResponse.Partition) -> PartitionStatus:
    return PartitionStatus(
        topic=entry.topic,
        partition=entry.partition,
        leader=None if entry.leader == _NOBODY else entry.leader,
        term=entry.term,
        target=tuple(entry.target),
        voters=tuple(entry.voters),
        in_sync=tuple(entry.in_sync),
        learners=tuple(
            LearnerStatus(
                broker=learner.broker,
                offset=_known(learner.offset),
                bytes_left=_known(learner.bytes_left),
            )
            for learner in entry.learners
        ),
        is_reached=entry.is_reached,
        commit_offset=entry.commit_offset,
        offline=tuple(
            OfflineCopy(broker=copy.broker, reason=copy.reason) for copy in entry.offline
        ),
    )


def _known(number: int) -> int | None:
    return None if number < 0 else number
