"""Changes of where copies of partitions should be, as people ask for them (R-REP-7).

Whichever broker is asked makes the plan (`registry.placement`, in a thread) and writes it to the
registry by compare-and-set; the partitions' leaders do the rest (`broker.cluster.movement`). The
invariant: a change is of the image it was planned by, or it is planned again; what cannot be is
refused before anything has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from penstock.model.errors import ChangedMeanwhile, InvalidPlacement, InvalidRequest, UnknownTopic
from penstock.model.ids import BrokerId, TopicPartition
from penstock.model.limits import REGISTRY_CONFLICTS_MAX
from penstock.registry import placement
from penstock.registry.api import Registry
from penstock.registry.facts import Move, Replicas
from penstock.registry.image import ClusterImage

# Moves in one change of the registry, where they are of several topics: a ZooKeeper takes no more
# than a megabyte at once.
_MOVES_AT_ONCE: Final = 1_000

Plan = Callable[[ClusterImage], list[Move]]


class Moved(NamedTuple):
    """A partition's target before and after a change."""

    name: TopicPartition
    before: Replicas
    after: Replicas


class ClusterChanges:
    """One per broker."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def target(self, name: TopicPartition) -> Replicas:
        """Who should have a copy of the partition. UnknownTopic."""
        return _target(self._registry.image, name)

    def check(self, name: TopicPartition, replicas: Replicas) -> None:
        """Raise what `move` would."""
        _check_brokers(self._registry.image, name, replicas, self.target(name))

    async def move(
        self, wanted: Mapping[TopicPartition, Replicas], *, is_dry_run: bool = False
    ) -> list[Moved]:
        """Put partitions on the brokers that are named. InvalidPlacement, UnknownTopic."""

        def plan(image: ClusterImage) -> list[Move]:
            moves = []
            for name, replicas in wanted.items():
                before = _target(image, name)
                _check_brokers(image, name, replicas, before)
                if replicas != before:
                    moves.append(Move(*name, replicas))
            return moves

        return await self._change(plan, is_dry_run=is_dry_run)

    async def replicate(
        self, topic: str, replicas: int, *, is_dry_run: bool = False
    ) -> list[Moved]:
        """Let all partitions of a topic have so many copies. InvalidReplication, UnknownTopic."""

        def plan(image: ClusterImage) -> list[Move]:
            image.topic(topic)
            return placement.change_replication(image, topic, replicas)

        return await self._change(plan, is_dry_run=is_dry_run)

    async def drain(
        self, broker: BrokerId, onto: BrokerId | None = None, *, is_dry_run: bool = False
    ) -> list[Moved]:
        """Take everything off a broker, alive or not: it gets nothing until `add`. onto: the one
        that replaces it. InvalidReplication if the others are too few."""

        def plan(image: ClusterImage) -> list[Move]:
            if onto is not None:
                _check_open(image, onto)
            return placement.evacuate(image, broker, onto)

        if onto == broker:
            raise InvalidRequest(f"Broker {broker} cannot replace itself: name another.")
        _check_known(self._registry.image, broker)
        planned = await self._change(plan, is_dry_run=True)
        if is_dry_run:
            return planned
        await self._registry.drain_broker(broker, is_drained=True)
        return await self._change(plan)

    async def add(self, broker: BrokerId, *, is_dry_run: bool = False) -> list[Moved]:
        """End a broker's drain, and spread copies onto it."""
        image = self._registry.image
        if broker not in image.brokers:
            raise InvalidPlacement(
                f"Broker {broker} is not in the cluster now: start it with this cluster's registry "
                "and --broker-id, then add it."
            )
        if broker in image.drained and not is_dry_run:
            await self._registry.drain_broker(broker, is_drained=False)

        def plan(image: ClusterImage) -> list[Move]:
            return placement.balance(replace(image, drained=image.drained - {broker}))

        return await self._change(plan, is_dry_run=is_dry_run)

    async def rebalance(self, *, is_dry_run: bool = False) -> list[Moved]:
        """Spread copies and preferred leaders evenly over the brokers, moving as few as can be."""
        return await self._change(placement.balance, is_dry_run=is_dry_run)

    async def _change(self, plan: Plan, *, is_dry_run: bool = False) -> list[Moved]:
        """Make the plan, and let the registry have it."""
        before: dict[TopicPartition, Replicas] = {}
        after: dict[TopicPartition, Replicas] = {}
        for attempt in range(1, REGISTRY_CONFLICTS_MAX + 1):
            image = self._registry.image
            moves = await asyncio.to_thread(plan, image)
            try:
                for some in _portions(moves):
                    if not is_dry_run:
                        await self._registry.change_targets(some, image)
                    for move in some:
                        name = TopicPartition(move.topic, move.partition)
                        before.setdefault(name, _target(image, name))
                        after[name] = move.replicas
                break
            except ChangedMeanwhile:
                if attempt == REGISTRY_CONFLICTS_MAX:
                    raise
        return [Moved(name, before[name], after[name]) for name in sorted(after)]


def _portions(moves: Sequence[Move]) -> Iterable[list[Move]]:
    """The moves of a topic are made at once, since each change makes it another one."""
    by_topic: dict[str, list[Move]] = {}
    for move in moves:
        by_topic.setdefault(move.topic, []).append(move)
    portion: list[Move] = []
    for of_topic in by_topic.values():
        if portion and len(portion) + len(of_topic) > _MOVES_AT_ONCE:
            yield portion
            portion = []
        portion = portion + of_topic
    if portion:
        yield portion


def _target(image: ClusterImage, name: TopicPartition) -> Replicas:
    partitions = image.topic(name.topic).partitions
    if not 0 <= name.partition < len(partitions):
        raise UnknownTopic(
            f"{name.topic!r} has no partition {name.partition}: it has {len(partitions)}, numbered "
            "from 0."
        )
    return partitions[name.partition].replicas


def _check_brokers(
    image: ClusterImage, name: TopicPartition, replicas: Replicas, before: Replicas
) -> None:
    if not replicas or len(set(replicas)) != len(replicas):
        raise InvalidPlacement(f"The copies of {name} name no broker, or one twice.")
    for broker in replicas:
        if broker not in before:
            _check_open(image, broker)


def _check_open(image: ClusterImage, broker: BrokerId) -> None:
    if broker not in image.brokers:
        raise InvalidPlacement(f"There is no live broker {broker}: see `penstock cluster status`.")
    if broker in image.drained:
        raise InvalidPlacement(
            f"Broker {broker} is drained: end that with `penstock cluster add {broker}`."
        )


def _check_known(image: ClusterImage, broker: BrokerId) -> None:
    is_used = any(
        broker in partition.replicas
        for topic in image.topics.values()
        for partition in topic.partitions
    )
    if not is_used and broker not in image.brokers and broker not in image.drained:
        raise InvalidPlacement(f"There is no broker {broker}: see `penstock cluster status`.")
