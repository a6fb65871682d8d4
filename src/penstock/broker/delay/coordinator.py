"""Who looks after delayed messages: the broker that leads `__delayed`. The others keep up with it.

Each broker that has a copy of the topic reads what is committed of it, so that little is left to
read when it begins to lead. The invariants: nobody but the leader accepts or delivers anything, and
only after it has read all that was written; what it had begun in a term ends with the term, or
with the first write that the log does not take.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from penstock.broker.carrier.parts import Parts
from penstock.broker.delay.admission import Accepted
from penstock.broker.delay.service import DelayService
from penstock.broker.delay.store import DelayedStore
from penstock.broker.partitions.partition import Partition
from penstock.broker.topics.internal import OwnTopic
from penstock.broker.topics.openings import Opened
from penstock.broker.turns.handler_tasks import HandlerTasks
from penstock.broker.turns.in_turns import InTurns
from penstock.coordination.delay.records import DELAYED_TOPIC
from penstock.coordination.delay.schedule import Schedule
from penstock.model.errors import (
    Busy,
    CoordinatorLoading,
    CorruptLog,
    NotCoordinator,
    PenstockError,
    ShuttingDown,
    StorageError,
    StorageFailed,
)
from penstock.model.limits import FRAME_BYTES_MAX, MIB
from penstock.protocol import penstock_pb2 as pb

logger = logging.getLogger(__name__)

_SETTINGS: Final[dict[str, str]] = {
    "durability": "fsync",
    # What may go is for the delayed messages to say.
    "cleanup_policy": "none",
    # Room is given back by whole segments.
    "segment_bytes": str(8 * MIB),
    # Messages are found by offset, one by one.
    "index_interval_bytes": "4096",
}
# How often one that does not lead reads what is new.
_TICK_S: Final = 1.0
_MADE_S: Final = 10.0
_STOP_S: Final = 10.0
_LOOK_S: Final = 0.02
# A log that takes nothing is tried again at once, and then not so often.
_REFUSED_S: Final = 0.5


class DelayCoordinator:
    """One per broker. All calls come from the event loop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._own = OwnTopic(DELAYED_TOPIC, parts.topics, parts.partitions)
        self._loop = asyncio.get_running_loop()
        self._store: DelayedStore | None = None
        self._service: DelayService | None = None
        self._following: InTurns[None] | None = None
        # Why nothing can be read of the copy that is here now.
        self._failure: PenstockError | None = None
        self._failed_partition: Partition | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = HandlerTasks(self._loop)
        # When a write was last refused, and before when nobody is served since.
        self._refused_s = -1.0
        self._pause_until_s = 0.0
        self._early_bytes = 0
        self._is_stopped = False

    # --- its life ------------------------------------------------------------------------------

    def start(self) -> None:
        """When all partitions are open."""
        self._parts.partitions.watch_leadership(self._on_leadership)
        self._tick()

    async def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        service, self._service = self._service, None
        if service is not None:
            await service.stop()
        if self._store is not None:
            await _save(self._store)
        self._close_store()
        await self._tasks.finish(_STOP_S)

    async def make_topic(self) -> None:
        """So that somebody leads it, and looks after delayed messages."""
        await self._parts.topics.keep_internal(DELAYED_TOPIC, _SETTINGS)

    def _on_leadership(self, partition: Partition, is_leader: bool) -> None:
        del is_leader  # by now it may be otherwise
        if partition.name == (DELAYED_TOPIC, 0):
            self.look()

    def _tick(self) -> None:
        self.look()
        self._timer = self._loop.call_later(_TICK_S, self._tick)

    def look(self) -> None:
        """There may be a copy here, or no more; it may lead, or no more; there may be more in
        it."""
        if self._is_stopped:
            return
        partition = self._parts.partitions.get(DELAYED_TOPIC, 0)
        store, service = self._store, self._service
        if service is not None and not service.writer.is_current:
            self._depose(service)
        if store is not None and (store.partition is not partition or store.is_void):
            self._close_store()
        if partition is None or self._service is not None:
            return
        if self._store is None and not self._open(partition):
            return
        self._follow()

    def _depose(self, service: DelayService) -> None:
        self._service = None
        ending = service.end()

        async def ended() -> None:
            await asyncio.gather(*ending, return_exceptions=True)

        self._tasks.start(ended())

    def _close_store(self) -> None:
        if self._following is not None:
            self._following.cancel()
            self._following = None
        if self._store is not None:
            self._store.close()
            self._store = None

    def _open(self, partition: Partition) -> bool:
        if self._failed_partition is partition:
            return False
        try:
            folder = self._own.folder
            self._store = DelayedStore(partition, folder, self._parts.flusher)
        except PenstockError as error:
            self._fail(partition, error)
            return False
        self._failure = self._failed_partition = None
        return True

    def _fail(self, partition: Partition, error: PenstockError) -> None:
        logger.error("Delayed messages cannot be served: %s", error)
        self._failure = StorageFailed(f"Delayed messages cannot be served: {error}")
        self._failed_partition = partition
        self._close_store()

    def _follow(self) -> None:
        """Read on; when all is read, and this broker leads, serve."""
        store = self._store
        assert store is not None
        if self._following is None or self._following.ended.is_set():
            self._following = InTurns(
                store.follow(),
                lambda _: self._read(store),
                lambda error: self._fail(store.partition, error),
            )

    def _read(self, store: DelayedStore) -> None:
        replica = store.partition.replica
        if self._store is not store or not replica.is_leader:
            return
        if store.is_behind:
            # A leader knows all that is committed once it leads; there came more meanwhile.
            self._loop.call_soon(self.look)
            return
        if self._service is not None or self._is_stopped:
            return
        if replica.failure is not None:
            self._fail(store.partition, replica.failure)
            return
        if self._loop.time() < self._pause_until_s:
            return
        if store.applied < replica.log.next_offset:
            # Of a service before this one, in the same term: it may still become true.

            def committed(error: PenstockError | None) -> None:
                if error is None:
                    self._loop.call_soon(self.look)

            replica.when_committed(replica.log.next_offset, committed)
            return
        if not store.table.is_whole:
            self._fail(store.partition, CorruptLog(f"{DELAYED_TOPIC} has lost its beginning."))
            return
        service = DelayService(
            store,
            self._parts,
            on_damage=lambda: self._renew(store),
            on_refused=self._on_refused,
        )
        self._service = service
        service.start()

    def _on_refused(self) -> None:
        """The log did not take something: what the service believes is not what the log says."""
        now_s = self._loop.time()
        if now_s - self._refused_s < 2 * _REFUSED_S:
            self._pause_until_s = now_s + _REFUSED_S
        self._refused_s = now_s
        self._loop.call_at(max(now_s, self._pause_until_s), self.look)

    def _renew(self, store: DelayedStore) -> None:
        """Its index is damaged: what it says is read again from the log."""
        if self._store is not store:
            return
        logger.error("The index of delayed messages is damaged, and made anew from the log")
        if self._service is not None:
            self._depose(self._service)
        self._close_store()
        try:
            store.discard()
        except StorageError as error:
            self._fail(store.partition, error)
            return
        self._loop.call_soon(self.look)

    # --- what handlers ask for -----------------------------------------------------------------

    def accept(self, request: pb.DelayRequest, opened: Opened, accepted: Accepted) -> None:
        """Raises if it cannot be kept, and then does not call `accepted`. The bytes of what was
        opened are needed until the turn ends."""
        if _is_made(self._parts):
            self._current().accept(request, opened, accepted)
            return
        if self._early_bytes and self._early_bytes + opened.size_bytes > FRAME_BYTES_MAX:
            raise Busy("The topic of delayed messages is being made: try again.")
        self._early_bytes += opened.size_bytes
        kept = opened._replace(batch=memoryview(bytearray(opened.batch)))
        self._tasks.start(self._accept_early(request, kept, accepted))

    async def _accept_early(
        self, request: pb.DelayRequest, opened: Opened, accepted: Accepted
    ) -> None:
        try:
            service = await self._made()
            service.accept(request, opened, accepted)
        except PenstockError as error:
            accepted(error, ())
        finally:
            self._early_bytes -= opened.size_bytes
            self._parts.driver.end_turn()

    async def cancel(self, dues: Sequence[tuple[int, int]]) -> list[bool]:
        if not _is_made(self._parts):
            return [False] * len(dues)
        return await self._current().cancel(dues)

    def describe(self, topic: str) -> pb.DescribeDelayedResponse:
        if not _is_made(self._parts):
            return pb.DescribeDelayedResponse()
        return self._current().describe(topic)

    async def put_schedule(self, schedule: Schedule) -> Schedule:
        return await (await self._made()).schedules.put(schedule)

    async def delete_schedule(self, name: str) -> None:
        await (await self._made()).schedules.delete(name)

    def schedules(self) -> list[Schedule]:
        return self._current().schedules.all() if _is_made(self._parts) else []

    async def _made(self) -> DelayService:
        """After the topic was made, if it was not there: it is led here, or another is to be
        asked."""
        if _is_made(self._parts):
            return self._current()
        await self.make_topic()
        give_up_s = self._loop.time() + _MADE_S
        while True:
            self.look()
            try:
                return self._current()
            except CoordinatorLoading:
                if self._loop.time() > give_up_s:
                    raise
            await asyncio.sleep(_LOOK_S)

    def _current(self) -> DelayService:
        if self._is_stopped:
            raise ShuttingDown
        if self._service is not None and self._service.writer.is_current:
            return self._service
        if self._failure is not None and self._own.is_led:
            raise self._failure
        if self._own.term is not None:
            raise CoordinatorLoading("What is delayed is being read: try again.")
        raise NotCoordinator("Delayed messages are looked after by another broker: ask which one.")


def _is_made(parts: Parts) -> bool:
    return parts.topics.is_known(DELAYED_TOPIC)


async def _save(store: DelayedStore) -> None:
    """So that a start has little to read."""
    saved = asyncio.Event()
    if store.is_void or not store.save(saved.set):
        return
    try:
        async with asyncio.timeout(_STOP_S):
            await saved.wait()
    except TimeoutError:
        logger.warning("The index of delayed messages was not saved in time: it is read again")
