"""Removes copies that are none any more: their partitions were moved to other brokers (R-REP-7).

A copy goes when two agree: the registry does not want it here, and the partition's leader says
that the membership without it is committed. What the copy must not forget, its term and its vote,
stays behind (`broker.partitions.folders`). The invariant: nobody counts on the vote, or on the
data, of what is removed.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.topics.assignment import Assignment
from penstock.broker.turns.rounds import Rounds
from penstock.model.errors import StorageError
from penstock.raft.state import SavedState
from penstock.registry.api import Registry
from penstock.registry.image import ClusterImage
from penstock.replication.peers.replicas import Replicas

logger = logging.getLogger(__name__)

# How often is looked whether a copy that is to go may.
_LOOK_S: Final = 0.5


class CopyRemoval:
    """One per broker of a cluster."""

    def __init__(
        self,
        registry: Registry,
        partitions: Partitions,
        assignment: Assignment,
        leaders: Leaders,
        replicas: Replicas,
    ) -> None:
        self._registry = registry
        self._partitions = partitions
        self._assignment = assignment
        self._leaders = leaders
        self._replicas = replicas
        self.rounds = Rounds("Removing copies", self._go_round, _LOOK_S)
        registry.watch(self._on_image)
        self._on_image(registry.image)

    def _on_image(self, image: ClusterImage) -> None:
        del image  # by then there may be a later one
        self.rounds.wake()

    async def _go_round(self) -> float | None:
        return _LOOK_S if await self.look() else None

    async def look(self) -> bool:
        """Remove what may go; whether there was anything that is to."""
        leaving = [each for each in self._partitions.all() if self._assignment.is_leaving(each)]
        for partition in leaving:
            await self._let_go(partition)
        return bool(leaving)

    async def _let_go(self, partition: Partition) -> None:
        """Remove the copy if it may go."""
        if self._memory(partition) is None:
            return
        try:
            await self._assignment.let_go(partition, lambda: self._memory(partition))
        except StorageError as error:
            logger.error("%s could not be removed from this broker: %s", partition.name, error)
        except Exception:
            logger.exception("Removing %s failed in a way nobody foresaw", partition.name)

    def _memory(self, partition: Partition) -> SavedState | None:
        """What is to stay of it; None if it must not go."""
        topic = self._registry.image.topics.get(partition.name.topic)
        participant = self._replicas.find(partition.replica.partition)
        if topic is None or participant is None or partition.replica.is_leader:
            return None
        claim = self._leaders.claim(topic, partition.name.partition)
        return None if claim is None else participant.memory(claim.told)
