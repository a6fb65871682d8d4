"""Who looks after staged writes: the broker that leads both of their topics.

Each leader of `__writes` is to lead `__staged` too. They are placed on the same brokers; whoever
leads `__staged` alone hands it over. What is staged, decided or refused is `service`'s affair:
there is a new one each time that this broker has begun to lead both, made from what it reads then.

The invariants: nobody but the leader of both topics decides anything, and only after it has read
all that was written to them; what a leader of one alone may still write is what it had begun as
leader of both, so the next one finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from typing import Final

from penstock.broker.carrier.parts import Parts
from penstock.broker.partitions.leaders import NO_BROKER
from penstock.broker.partitions.partition import Partition
from penstock.broker.staging.log import make_topics
from penstock.broker.staging.service import Staging
from penstock.broker.topics.internal import OwnTopic
from penstock.broker.turns.handler_tasks import HandlerTasks
from penstock.broker.turns.in_turns import InTurns
from penstock.coordination.staging.records import STAGED_TOPIC, WRITES_TOPIC
from penstock.model.errors import (
    CoordinatorLoading,
    NotCoordinator,
    PenstockError,
    ShuttingDown,
)
from penstock.replication.replica.participant import Participant

logger = logging.getLogger(__name__)

# How soon it is looked again whether somebody leads `__writes`, to give him `__staged`.
_HAND_OVER_S: Final = 0.25
# A record that is being written is waited for when the broker stops, but not for ever.
_STOP_S: Final = 10.0


class StagingCoordinator:
    """One per broker. All calls come from the event loop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._topics = parts.topics
        self._partitions = parts.partitions
        self._loop = asyncio.get_running_loop()
        self._writes = OwnTopic(WRITES_TOPIC, parts.topics, parts.partitions)
        self._staged = OwnTopic(STAGED_TOPIC, parts.topics, parts.partitions)
        self._serving: Staging | None = None
        self._loading: InTurns[Staging] | None = None
        self._handing_over: asyncio.Task[None] | None = None
        # Those that serve no more, and have something to end.
        self._former = HandlerTasks(self._loop)
        self._is_stopped = False

    # --- its life ------------------------------------------------------------------------------

    def begin(self) -> None:
        """When the internal topics are open, before any other."""
        if not self._leads_both:
            return
        self._serving = Staging(self._parts)
        try:
            for _ in self._serving.read_decisions():
                """To the end: nobody is served yet."""
        except PenstockError as error:
            self._serving.fail(error)

    async def start(self) -> None:
        """When all partitions are open."""
        self._partitions.watch_leadership(self._on_leadership)
        serving = self._serving
        if serving is not None and serving.log.is_made and serving.is_open:
            try:
                for _ in serving.read_staged():
                    await asyncio.sleep(0)
                await serving.log.make()
            except PenstockError as error:
                serving.fail(error)
        if serving is None:
            self._look()
        else:
            serving.serve()

    def begin_closing(self) -> None:
        """From now on nobody waits for a copy to end."""
        if self._serving is not None:
            self._serving.begin_closing()

    async def stop(self) -> None:
        self._is_stopped = True
        if self._loading is not None:
            self._loading.cancel()
        if self._handing_over is not None:
            self._handing_over.cancel()
            await asyncio.wait([self._handing_over])
        if self._serving is not None:
            await self._serving.stop()
        await self._former.finish(_STOP_S)

    async def make_topics(self) -> None:
        """So that somebody leads them, and looks after staged writes."""
        await make_topics(self._topics)

    # --- what handlers ask for -----------------------------------------------------------------

    @property
    def current(self) -> Staging:
        """Staged writes, which this broker looks after now; or why it does not."""
        if self._serving is not None:
            return self._serving
        if self._is_stopped:
            raise ShuttingDown
        if self._leads_both:
            raise CoordinatorLoading("What is staged is being read: try again.")
        raise NotCoordinator("Staged writes are looked after by another broker: ask which one.")

    # --- who leads -----------------------------------------------------------------------------

    @property
    def _leads_both(self) -> bool:
        return self._writes.is_led and self._staged.is_led

    def _on_leadership(self, partition: Partition, is_leader: bool) -> None:
        del is_leader  # by now it may be otherwise
        if partition.name in ((WRITES_TOPIC, 0), (STAGED_TOPIC, 0)) and not self._is_stopped:
            self._look()

    def _look(self) -> None:
        """This broker may have begun or ceased to lead."""
        serving = self._serving
        if serving is None or not (serving.log.is_current or serving.log.is_making):
            self._depose()
            if self._leads_both:
                staging = Staging(self._parts)
                self._loading = InTurns(
                    _reading(staging), self._loaded, lambda error: self._not_loaded(staging, error)
                )
        if self._handing_over is None and self._leads_staged_alone:
            self._handing_over = self._loop.create_task(self._hand_over())

    def _depose(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None
        if self._serving is not None:
            self._serving.abdicate()
            self._former.start(self._serving.log.made())
            self._serving = None

    def _loaded(self, staging: Staging) -> None:
        if staging.log.is_current:  # else it is about to be looked again
            self._serving = staging
            staging.serve()

    def _not_loaded(self, staging: Staging, error: PenstockError) -> None:
        if self._leads_both:
            staging.fail(error)
            self._serving = staging

    # --- both together -------------------------------------------------------------------------

    @property
    def _leads_staged_alone(self) -> bool:
        return self._staged.is_led and self._staged.is_here and not self._writes.is_led

    async def _hand_over(self) -> None:
        """Let whoever leads `__writes` lead `__staged` too."""
        try:
            while self._leads_staged_alone:
                self._offer_staged()
                await asyncio.sleep(_HAND_OVER_S)
        except PenstockError as error:
            logger.warning("%s could not be handed over: %s", STAGED_TOPIC, error)
        finally:
            self._handing_over = None

    def _offer_staged(self) -> None:
        leader = self._parts.leaders.of(self._topics.find(WRITES_TOPIC), 0).broker
        replica = self._staged.partition.replica
        heirs = [
            node
            for node in replica.consensus.raft.state.membership.voters
            if node.broker == leader != NO_BROKER
        ]
        for heir in heirs:
            Participant(replica).transfer(heir)
        if leader != NO_BROKER and not heirs:
            logger.warning(
                "Staged writes cannot be served: broker %d leads %s and has no copy of %s: move "
                "one there.",
                leader,
                WRITES_TOPIC,
                STAGED_TOPIC,
            )
        self._parts.driver.end_turn()


def _reading(staging: Staging) -> Generator[None, None, Staging]:
    yield from staging.read_decisions()
    yield from staging.read_staged()
    return staging
