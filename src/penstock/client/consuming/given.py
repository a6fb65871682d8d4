"""What a group gives a consumer to read, and takes away: followed without reading what is others'.

Not how the group says it: `membership` hears that, and says it here. The invariants: a partition
that is to be given up is not read any more, and what was acknowledged of it is committed, before
the group is told that it is free; nothing is read that the group did not give, or may have given to
others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from penstock.client.concurrency.backoff import Backoff
from penstock.client.concurrency.callbacks import tell
from penstock.client.consuming.partitions import OwnPartitions
from penstock.client.consuming.settings import ConsumerConfig
from penstock.client.consuming.starts import Start
from penstock.model.errors import PenstockError
from penstock.model.ids import TopicPartition

logger = logging.getLogger(__name__)

# Who gives something up waits no longer for a coordinator that is gone.
_PATIENCE_S: Final = 5.0


class GivenPartitions:
    """Of one member of a group."""

    def __init__(
        self,
        member_id: str,
        settings: ConsumerConfig,
        own: OwnPartitions,
        changing: asyncio.Lock,
        backoff: Backoff,
        on_free: Callable[[], None],
    ) -> None:
        """changing: is held by whoever changes what is read. on_free: is told when there is what
        the group waits for."""
        self._member_id = member_id
        self._settings = settings
        self._own = own
        self._changing = changing
        self._backoff = backoff
        self._on_free = on_free
        # What the group says that this may read; what of it is about to be read, and is owned until
        # it is known not to be; and what of that was taken away, since others may have it since.
        self._told: frozenset[TopicPartition] = frozenset()
        self._taking: frozenset[TopicPartition] = frozenset()
        self._withdrawn: set[TopicPartition] = set()
        # Lost without having been given up, and not told to the user yet.
        self._lost: list[TopicPartition] = []
        self._has_news = asyncio.Event()  # what it has is not what it is told to have
        self.counts: Mapping[str, int] = {}
        """How many partitions each topic had at first: later ones are read from their beginning."""

    @property
    def owned(self) -> Collection[TopicPartition]:
        """What others may not read yet."""
        return self._taking.union(self._own.partitions)

    @property
    def is_any(self) -> bool:
        """Whether something is read, or is to be."""
        return bool(self._own.partitions or self._told)

    def hear(self, told: Collection[TopicPartition] | None) -> None:
        """The group has answered. told: what it gives now; None: what it gave before."""
        if told is not None:
            told = frozenset(told)
            self._withdrawn |= self._told - told
            self._told = told
        if self._told != set(self._own.partitions):
            self._has_news.set()

    def lose(self) -> None:
        """Others may read all of it by now."""
        self._lost += self.forget()
        self._taking = frozenset()
        self._has_news.set()

    def forget(self) -> list[TopicPartition]:
        """Who joins again has nothing. What was read."""
        lost = self._own.partitions
        self._own.remove(lost)
        self.hear(frozenset())
        return lost

    async def follow(self) -> None:
        """Do as the group says, until it is cancelled."""
        failures = 0
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            try:
                async with self._changing:
                    await self.reconcile()
                failures = 0
            except PenstockError as error:
                failures += 1
                logger.warning("%s cannot read what it was given: %s", self._member_id, error)
                await asyncio.sleep(self._backoff.wait_s(failures))
                self._has_news.set()

    async def reconcile(self) -> None:
        """Give up what is somebody else's, then take what is ours. Under `changing`."""
        if self._lost:
            lost, self._lost = self._lost, []
            await tell(self._changing, self._settings.on_revoked, lost)
        revoked = [each for each in self._own.partitions if each not in self._told]
        if revoked:
            await self._give_up(revoked)
        given = [each for each in self._told if each not in self._own]
        if given:
            await self._take(sorted(given))
        if self._told != set(self._own.partitions):
            self._has_news.set()

    async def _give_up(self, partitions: list[TopicPartition]) -> None:
        own = self._own
        own.hold(partitions)
        await tell(self._changing, self._settings.on_revoked, partitions)
        assert own.committer is not None
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await own.committer.commit()
        except (TimeoutError, PenstockError) as error:
            logger.warning(
                "%s gives up %s without having committed its place there: %s",
                self._member_id,
                ", ".join(f"{topic}-{number}" for topic, number in partitions),
                error,
            )
        own.remove(partitions)
        self._on_free()

    async def _take(self, partitions: list[TopicPartition]) -> None:
        starts: dict[TopicPartition, Start] = {
            each: self._settings.start
            if each.partition < self.counts.get(each.topic, 0)
            else "earliest"
            for each in partitions
        }
        self._withdrawn.clear()
        self._taking = frozenset(partitions)
        try:
            added = await self._own.add(starts, keeps_starts=True)
        finally:
            self._taking = frozenset()
        # Where they begin may have been found out before others had them: not to be read at all.
        withdrawn = self._withdrawn.intersection(added)
        if withdrawn:
            self._own.remove(withdrawn)
            self._on_free()
        kept = [each for each in added if each not in withdrawn]
        if kept and self._settings.on_assigned is not None:
            # Nothing comes before the user knows of it, who may want to begin elsewhere.
            self._own.hold(kept)
            await tell(self._changing, self._settings.on_assigned, kept)
            self._own.release(kept)
