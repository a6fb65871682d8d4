"""Clusters for tests of facts and placement, made from a few numbers; patience with real ones."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from penstock.model.ids import BrokerId, TopicId
from penstock.registry.api import Registry
from penstock.registry.facts import Change, Facts, Move, RegisterBroker, Replicas, apply
from penstock.registry.image import BrokerImage, ClusterImage, TopicImage, placed
from penstock.registry.metaserver.client import MetaRegistry
from penstock.registry.zookeeper.client import ZooKeeperRegistry

Topics = Mapping[str, Sequence[Replicas]]


def ids(*numbers: int) -> Replicas:
    return tuple(BrokerId(number) for number in numbers)


def broker(number: int, host: str = "", directory: int = 0, place: int = 0) -> BrokerImage:
    return BrokerImage(
        id=BrokerId(number),
        address=f"127.0.0.1:{9000 + number}",
        host=host,
        directory=directory or 0xD0 + number,
        place=place or 0xE0 + number,
    )


def cluster(
    brokers: Iterable[BrokerImage], topics: Topics | None = None, drained: Iterable[int] = ()
) -> ClusterImage:
    return ClusterImage(
        cluster_id="cluster",
        brokers={each.id: each for each in brokers},
        topics={
            name: TopicImage(
                name=name,
                id=TopicId(f"{number:032x}"),
                partitions=tuple(placed(replicas, ()) for replicas in partitions),
            )
            for number, (name, partitions) in enumerate((topics or {}).items())
        },
        drained=frozenset(ids(*drained)),
    )


def moved(topics: Topics, moves: Iterable[Move]) -> dict[str, list[Replicas]]:
    """The topics' targets after a plan."""
    after = {name: list(partitions) for name, partitions in topics.items()}
    for move in moves:
        after[move.topic][move.partition] = move.replicas
    return after


def replicas_moved(topics: Topics, moves: Iterable[Move]) -> int:
    """How many copies have to be made."""
    return sum(len(set(move.replicas) - set(topics[move.topic][move.partition])) for move in moves)


def replica_loads(brokers: Iterable[BrokerImage], topics: Topics) -> list[int]:
    counts = Counter(
        holder for partitions in topics.values() for replicas in partitions for holder in replicas
    )
    return [counts[each.id] for each in brokers]


def leader_loads(brokers: Iterable[BrokerImage], topics: Topics) -> list[int]:
    counts = Counter(replicas[0] for partitions in topics.values() for replicas in partitions)
    return [counts[each.id] for each in brokers]


def spread(loads: Sequence[int]) -> int:
    return max(loads) - min(loads)


class SharedFacts(Registry):
    """The registry of a cluster in memory: every change holds at once."""

    def __init__(self, brokers: Iterable[BrokerImage]) -> None:
        self.facts = Facts(cluster_id="cluster", brokers={each.id: each for each in brokers})
        super().__init__(self.facts.image())

    @property
    def is_controller(self) -> bool:
        return True

    async def register_broker(self, broker: BrokerImage) -> None:
        await self.change(RegisterBroker(broker=broker))

    async def catch_up(self) -> None:
        self._install(self.facts.image())

    async def close(self) -> None:
        pass

    async def change(self, change: Change) -> Facts:
        before, self.facts = self.facts, apply(self.facts, change)
        self._install(self.facts.image())
        return before

    def forget_everything(self) -> None:
        """As if somebody had emptied the store."""
        self.facts = Facts(cluster_id="another")
        self._install(self.facts.image())


def leads(registry: Registry) -> bool:
    """Whether it holds itself for the controller at this moment."""
    return registry.is_controller


async def eventually(holds: Callable[[], object], seconds_max: float = 15) -> None:
    deadline = time.monotonic() + seconds_max
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def registered(
    registry: MetaRegistry | ZooKeeperRegistry, broker_id: int
) -> AsyncIterator[None]:
    """It is open, with its broker registered if it has an id."""
    await registry.open()
    try:
        if broker_id:
            await registry.register_broker(broker(broker_id))
        yield
    finally:
        await registry.close()
