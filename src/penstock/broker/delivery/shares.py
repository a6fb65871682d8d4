"""The shared groups of the partitions that this broker leads: opened when a member first asks,
closed when nobody holds anything of them any more, or this broker no longer leads.

How one hands out is `share`'s. The invariant: of a group and a partition there is one share at a
time, of the term in which its state was read, so two brokers never lease the same messages.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

from penstock.broker.delivery.dead_letters import DeadLetters
from penstock.broker.delivery.filters import Filters
from penstock.broker.delivery.share import Ask, Holder, Settled, Share, Surroundings, Told
from penstock.broker.delivery.share_log import Matches, ShareLog
from penstock.broker.partition import Partition
from penstock.broker.partitions import Partitions
from penstock.broker.session import Session
from penstock.coordination.delivery.share_partition import SharePartition
from penstock.coordination.delivery.share_settings import ShareSettings
from penstock.model.errors import Busy, NotLeader, PenstockError, ShuttingDown
from penstock.model.ids import TopicId
from penstock.model.limits import SHARES_MAX
from penstock.net.clock import Clock
from penstock.protocol import penstock_pb2 as pb

logger = logging.getLogger(__name__)

# Between two tries to read where a group stands, while its coordinator is being elected.
_RETRY_S: Final = 0.05
# Then whoever waits is told, and asks again.
_OPEN_S_MAX: Final = 5.0
# For the last words of a share.
_CLOSE_S_MAX: Final = 2.0

Write = Callable[[bytes], Awaitable[None]]


class Place(NamedTuple):
    """A group in a partition."""

    group: str
    topic_id: TopicId
    partition: int


class States:
    """Where groups stand, at their coordinator: what this broker asks of it."""

    def __init__(
        self,
        read: Callable[[pb.ReadShareRequest], Awaitable[pb.ReadShareResponse]],
        write: Callable[[pb.WriteShareRequest], Awaitable[pb.WriteShareResponse]],
    ) -> None:
        self.read = read
        self.write = write


class Shares:
    """One per broker. All calls come from the event loop."""

    def __init__(
        self,
        partitions: Partitions,
        states: States,
        dead_letters: DeadLetters,
        filters: Filters,
        clock: Clock,
    ) -> None:
        self._states = states
        self._dead_letters = dead_letters
        self._filters = filters
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        # Wall time that does not jump when somebody sets the clock: leases depend on it.
        self._zero_ms = clock.now_ms() - int(clock.monotonic() * 1000)
        self._shares: dict[Place, Share] = {}
        self._openings: dict[Place, _Opening] = {}
        # The last words of those that were closed, on their way to the coordinator.
        self._closings: dict[Place, asyncio.Task[None]] = {}
        self._is_closing = False
        partitions.watch_leadership(self._on_leadership)

    def __iter__(self) -> Iterator[Share]:
        return iter(self._shares.values())

    # --- what handlers ask for -----------------------------------------------------------------

    def ask(self, group: str, partition: Partition, ask: Ask, session: Session) -> None:
        """Lease messages to a member, whose connection is the session: when that ends, it holds
        nothing any more."""

        def then(share: Share) -> None:
            if ask.is_given_up:
                return
            self._hold(share, session, ask.member)
            share.ask(ask)

        self._when_open(group, partition, then, ask.refuse)

    def settle(
        self,
        group: str,
        partition: Partition,
        member: str,
        settled: Sequence[Settled],
        told: Told,
    ) -> None:
        """What became of messages of a member."""
        self._when_open(
            group,
            partition,
            lambda share: share.settle(member, settled, told),
            lambda error: told([error] * len(settled)),
        )

    def give_up(self, group: str, partition: Partition, ask: Ask) -> None:
        """It waits no longer, and is told nothing."""
        ask.is_given_up = True
        if (share := self.find(group, partition)) is not None:
            share.give_up(ask)

    def find(self, group: str, partition: Partition) -> Share | None:
        """Where somebody of the group holds something, or waits for it."""
        return self._shares.get(_place(group, partition))

    def begin_closing(self) -> None:
        """Nobody waits any more."""
        self._is_closing = True
        for opening in list(self._openings.values()):
            opening.task.cancel()
            opening.refuse_all(ShuttingDown())
        for share in list(self._shares.values()):
            share.refuse_waiting(ShuttingDown())

    async def stop(self) -> None:
        """When all connections have ended: what nobody holds is not in doubt after a restart."""
        if self._closings:
            await asyncio.wait(self._closings.values(), timeout=_CLOSE_S_MAX)

    # --- opening and closing -------------------------------------------------------------------

    def _when_open(
        self,
        group: str,
        partition: Partition,
        then: Callable[[Share], None],
        refuse: Callable[[PenstockError], None],
    ) -> None:
        if self._is_closing:
            refuse(ShuttingDown())
            return
        place = _place(group, partition)
        share = self._shares.get(place)
        if share is not None:
            then(share)
            return
        opening = self._openings.get(place)
        if opening is None:
            if len(self._shares) + len(self._openings) >= SHARES_MAX:
                refuse(Busy(f"The broker serves {SHARES_MAX} shared groups and no more."))
                return
            opening = self._openings[place] = _Opening()
            opening.task = self._loop.create_task(self._open(place, partition, opening))
        opening.waiting.append((then, refuse))

    async def _open(self, place: Place, partition: Partition, opening: _Opening) -> None:
        try:
            share = await self._read(place, partition)
        except PenstockError as error:
            self._openings.pop(place, None)
            opening.refuse_all(error)
            return
        except Exception:
            self._openings.pop(place, None)
            opening.refuse_all(NotLeader())
            raise
        self._openings.pop(place, None)
        self._shares[place] = share
        for then, _ in opening.waiting:
            then(share)

    async def _read(self, place: Place, partition: Partition) -> Share:
        replica = partition.replica
        term = replica.term
        deadline_s = self._loop.time() + _OPEN_S_MAX
        request = pb.ReadShareRequest(
            group=place.group, topic_id=place.topic_id, partition=place.partition, leader_term=term
        )
        closing = self._closings.get(place)
        if closing is not None:
            await asyncio.wait([closing])
        while True:
            try:
                found = await self._states.read(request)
                break
            except PenstockError as error:
                if not error.retriable or self._loop.time() >= deadline_s:
                    raise
            await asyncio.sleep(_RETRY_S)
        if not (partition.is_open and replica.is_leader and replica.term == term):
            raise NotLeader
        return self._made(place, partition, term, found)

    def _made(
        self, place: Place, partition: Partition, term: int, found: pb.ReadShareResponse
    ) -> Share:
        said = found.settings
        settings = ShareSettings(
            lease_ms=said.lease_ms,
            attempts_max=said.attempts_max,
            backoff_ms=said.backoff_ms,
            backoff_ms_max=said.backoff_ms_max,
            is_ordered_by_key=said.ordered_by_key,
        )
        replica = partition.replica
        if found.is_known:
            log_end = replica.log.next_offset
            machine = SharePartition.restore(found.state, settings, self._now_ms(), log_end)
        else:
            # The end, not the high watermark: a new leader does not know that one at first.
            records = replica.log
            start = records.next_offset if said.start_latest else records.start_offset
            machine = SharePartition.fresh(start, settings)

        async def write(state: bytes) -> None:
            await self._states.write(
                pb.WriteShareRequest(
                    group=place.group,
                    topic_id=place.topic_id,
                    partition=place.partition,
                    leader_term=term,
                    state=state,
                    incarnation=found.incarnation,
                )
            )

        log = ShareLog(
            partition,
            is_ordered_by_key=said.ordered_by_key,
            matches=self._matches(said.filter),
        )
        around = Surroundings(
            loop=self._loop,
            now_ms=self._now_ms,
            write=write,
            draw=random.random,
            dead_letters=self._dead_letters,
            ended=lambda share, state: self._ended(place, share, write, state),
        )
        return Share(place.group, partition, term, machine, log, around)

    def _matches(self, wanted: pb.Filter) -> Matches | None:
        """Which messages are for the group; None: all."""
        if not wanted.ByteSize():
            return None
        compiled = self._filters.compiled(wanted)
        return lambda message: compiled.matches(message.key, message.timestamp_ms, message.headers)

    def _hold(self, share: Share, session: Session, member: str) -> None:
        """What the member holds ends with its connection."""
        holder = Holder(session, member)
        if holder in share.holders:
            return
        share.holders.add(holder)

        def gone() -> None:
            share.holders.discard(holder)
            share.drop_member(member)

        session.on_close((holder, share), gone)

    def _ended(self, place: Place, share: Share, write: Write, state: bytes | None) -> None:
        if self._shares.get(place) is share:
            del self._shares[place]
        for holder in share.holders:
            holder.session.forget((holder, share))
        if state is not None:
            self._closings[place] = closing = self._loop.create_task(_close(write, state))
            closing.add_done_callback(lambda _: self._closings.pop(place, None))

    def _on_leadership(self, partition: Partition, is_leader: bool) -> None:
        del is_leader  # by now it may be otherwise
        for share in [one for one in self._shares.values() if one.partition is partition]:
            if not share.is_led:
                share.end(NotLeader())

    def _now_ms(self) -> int:
        return self._zero_ms + int(self._clock.monotonic() * 1000)


class _Opening:
    """Those who wait until it is read where the group stands."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None]
        self.waiting: list[tuple[Callable[[Share], None], Callable[[PenstockError], None]]] = []

    def refuse_all(self, error: PenstockError) -> None:
        for _, refuse in self.waiting:
            refuse(error)


async def _close(write: Write, state: bytes) -> None:
    try:
        async with asyncio.timeout(_CLOSE_S_MAX):
            await write(state)
    except (TimeoutError, PenstockError) as error:
        # Some messages are in doubt for a while then, and nothing is lost.
        logger.info("A shared group was closed without its last words: %s", error)


def _place(group: str, partition: Partition) -> Place:
    return Place(group, partition.topic_id, partition.name.partition)
