"""What one broker sees to for the whole cluster: what nobody else would finish.

Deletions of topics whose deleter died; internal topics that have fewer copies than they should,
because there were fewer brokers; copies that are still on drained brokers. Which broker does it is
the registry's affair, and asked before each act: two that both believe to be the controller for a
moment do no harm, since every change is a compare-and-set. The invariant: nothing is done here that
a crash could leave half done.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.broker.cluster.changes import ClusterChanges, Moved
from penstock.broker.turns.rounds import Rounds
from penstock.model.errors import PenstockError
from penstock.model.ids import TopicId, is_internal
from penstock.net.clock import Clock
from penstock.registry.api import Registry
from penstock.registry.placement import internal_copies

logger = logging.getLogger(__name__)

_LOOK_S: Final = 2.0
# Whoever deletes a topic takes less time, if it is alive.
_DELETION_S_MAX: Final = 10.0


class Controller:
    """One per broker of a cluster; does something where the registry says so."""

    def __init__(
        self,
        registry: Registry,
        changes: ClusterChanges,
        clock: Clock,
        *,
        internal_replication_factor: int,
    ) -> None:
        self._registry = registry
        self._changes = changes
        self._clock = clock
        self._internal_replication_factor = internal_replication_factor
        # Since when a deletion is seen to be under way.
        self._deleting_since: dict[TopicId, float] = {}
        # By what could not be done, so that it is said once.
        self._complaints: dict[str, str] = {}
        self.rounds = Rounds("The controller", self._go_round, _LOOK_S)

    async def _go_round(self) -> float:
        await self.look()
        return _LOOK_S

    async def look(self) -> None:
        """Do all that is to be done now. What cannot be keeps nothing else back."""
        for duty in (self._finish_deletions, self._empty_drained, self._raise_internal):
            try:
                await duty()
                self._complaints.pop(duty.__name__, None)
            except PenstockError as error:
                self._complain(duty.__name__, error)

    async def _finish_deletions(self) -> None:
        now = self._clock.monotonic()
        deleting = {
            topic.id: topic.name for topic in self._registry.image.topics.values() if topic.deleting
        }
        for topic_id in self._deleting_since.keys() - deleting.keys():
            del self._deleting_since[topic_id]
        for topic_id, name in deleting.items():
            since = self._deleting_since.setdefault(topic_id, now)
            if now - since >= _DELETION_S_MAX and self._registry.is_controller:
                logger.info("The deletion of topic %s is finished for whoever began it", name)
                await self._registry.finish_deletion(name)

    async def _raise_internal(self) -> None:
        image = self._registry.image
        factor = internal_copies(image, self._internal_replication_factor)
        for topic in image.topics.values():
            are_few = any(len(partition.replicas) < factor for partition in topic.partitions)
            if is_internal(topic.name) and not topic.deleting and are_few:
                if not self._registry.is_controller:
                    return
                self._say(await self._changes.replicate(topic.name, factor))

    async def _empty_drained(self) -> None:
        image = self._registry.image
        used = {
            broker
            for topic in image.topics.values()
            if not topic.deleting
            for partition in topic.partitions
            for broker in partition.replicas
        }
        for broker in sorted(image.drained & used):
            if not self._registry.is_controller:
                return
            self._say(await self._changes.drain(broker))

    def _say(self, moved: list[Moved]) -> None:
        for name, before, after in moved:
            logger.info("%s is to be on brokers %s instead of %s", name, list(after), list(before))

    def _complain(self, duty: str, error: PenstockError) -> None:
        if error.message != self._complaints.get(duty):
            self._complaints[duty] = error.message
            logger.warning("The controller cannot do all it should: %s", error)
