"""The shared groups of the partitions that this broker leads: opened when a member first asks,
closed when nobody holds anything of them any more, or this broker no longer leads.

How one hands out is `partition`'s. The invariant: of a group and a partition there is one at a
time, of the term in which its state was read, so two brokers never lease the same messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, Protocol

from penstock.broker.delivery.dead_letters import DeadLetters
from penstock.broker.delivery.filters import Filters
from penstock.broker.delivery.shared.keeping import Keeper, Write
from penstock.broker.delivery.shared.log import ShareLog
from penstock.broker.delivery.shared.partition import (
    Ask,
    Connected,
    Holder,
    Settled,
    Share,
    Surroundings,
    Told,
)
from penstock.broker.delivery.shared.standstill import Pulse
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.partitions.unopened import TurnBudget
from penstock.broker.turns.fair_turns import FairTurns
from penstock.coordination.delivery.shared_partition import SharePartition
from penstock.coordination.delivery.shared_settings import ShareSettings
from penstock.model.errors import Busy, NotLeader, PenstockError, ShuttingDown, TooManySubscriptions
from penstock.model.ids import TopicId
from penstock.model.limits import MEMBERSHIPS_PER_CONNECTION_MAX, SHARES_MAX
from penstock.net.clock import Clock, steady_ms
from penstock.protocol import penstock_pb2 as pb
from penstock.replication.replica.transport import TIMING

logger = logging.getLogger(__name__)

# Between two tries to read where a group stands, while its coordinator is being elected.
_RETRY_S: Final = 0.05
# Then whoever waits is told, and asks again.
_OPEN_S_MAX: Final = 5.0
# How long a leader that a majority does not hear any more may think that it leads: it looks at its
# timers, and at what it was sent, a little later than it should.
_FORMER_LEADER_MS: Final = TIMING.election_ms + 400
# For the last words of a share.
_CLOSE_S_MAX: Final = 2.0


class Place(NamedTuple):
    """A group in a partition."""

    group: str
    topic_id: TopicId
    partition: int


class States(Protocol):
    """Where groups stand, at their coordinator: what this broker asks of it."""

    def read_share(self, request: pb.ReadShareRequest) -> Awaitable[pb.ReadShareResponse]: ...

    def write_share(self, request: pb.WriteShareRequest) -> Awaitable[pb.WriteShareResponse]: ...


class Shares:
    """One per broker. All calls come from the event loop."""

    def __init__(
        self,
        partitions: Partitions,
        states: States,
        dead_letters: DeadLetters,
        filters: Filters,
        turns: FairTurns,
        budget: TurnBudget,
        clock: Clock,
    ) -> None:
        self._states = states
        self._budget = budget
        self._dead_letters = dead_letters
        self._filters = filters
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._now_ms = steady_ms(clock)
        self._shares: dict[Place, Share] = {}
        self._openings: dict[Place, _Opening] = {}
        # Which shares end with whose connection.
        self._held: dict[Holder, dict[Share, None]] = {}
        # How many hold something on each connection.
        self._names: Counter[Connected] = Counter()
        # The last words of those that were closed, on their way to the coordinator.
        self._closings: dict[Place, asyncio.Task[None]] = {}
        # Of the last state that was written: a later one has a higher number.
        self._sequence = 0
        self._pulse = Pulse(self._loop, lambda: bool(self._shares))
        self._keeper = Keeper(self._now_ms)
        self._is_closing = False
        partitions.watch_leadership(self._on_leadership)

    def __iter__(self) -> Iterator[Share]:
        return iter(self._shares.values())

    # --- what handlers ask for -----------------------------------------------------------------

    def ask(self, group: str, partition: Partition, ask: Ask, connection: Connected) -> None:
        """Lease messages to a member, whose connection this is: when that ends, it holds nothing
        any more."""
        holder = Holder(connection, ask.member)
        if holder not in self._held and self._names[connection] >= MEMBERSHIPS_PER_CONNECTION_MAX:
            ask.refuse(
                TooManySubscriptions(
                    f"{MEMBERSHIPS_PER_CONNECTION_MAX} members of groups lease messages on this "
                    "connection, which is the limit: use another one for more."
                )
            )
            return

        def then(share: Share) -> None:
            if self._hold(share, holder):
                share.ask(ask)

        opening = self._when_open(group, partition, ask, then, ask.refuse)
        if opening is not None:
            opening.instead[ask] = (holder, lambda share: self._hold(share, holder))

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
            told,
            lambda share: share.settle(member, settled, told),
            lambda error: told([error] * len(settled)),
        )

    def give_up(self, group: str, partition: Partition, ask: Ask) -> None:
        """It waits no longer, and is told nothing."""
        ask.is_given_up = True
        if (share := self.find(group, partition)) is not None:
            share.give_up(ask)
        elif (opening := self._openings.get(_place(group, partition))) is not None:
            opening.give_up(ask)

    def leave_partition(self, group: str, partition: Partition, member: str) -> None:
        """A member asks no more there: what it has begun with it has settled."""
        place = _place(group, partition)
        if (opening := self._openings.get(place)) is not None:
            opening.forget_member(member)
        if (share := self._shares.get(place)) is not None:
            for holder in [one for one in share.holders if one.member == member]:
                self._let_go(share, holder)
            share.drop_member(member, is_lost=False)

    def leave(self, group: str, member: str, connection: Connected, *, is_lost: bool) -> None:
        """The member holds nothing of the group any more on this connection. Lost: what it held
        was an attempt, as when the connection had ended."""
        holder = Holder(connection, member)
        for share in [one for one in self._held.get(holder, ()) if one.group == group]:
            self._let_go(share, holder)
            share.drop_member(member, is_lost=is_lost)

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
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S_MAX):
                # One that is still saving says its last words behind that.
                while last := [*self._closings.values(), *self._savings()]:
                    await asyncio.wait(last)

    def _savings(self) -> list[asyncio.Task[None]]:
        return [share.saving for share in self._shares.values() if share.saving is not None]

    # --- opening and closing -------------------------------------------------------------------

    def _when_open(
        self,
        group: str,
        partition: Partition,
        waiter: object,
        then: Callable[[Share], None],
        refuse: Callable[[PenstockError], None],
    ) -> _Opening | None:
        """Returns what it waits for, if it does."""
        if self._is_closing:
            refuse(ShuttingDown())
            return None
        place = _place(group, partition)
        share = self._shares.get(place)
        if share is not None:
            then(share)
            return None
        opening = self._openings.get(place)
        if opening is None:
            if len(self._shares) + len(self._openings) >= SHARES_MAX:
                refuse(Busy(f"The broker serves {SHARES_MAX} shared groups and no more."))
                return None
            opening = self._openings[place] = _Opening()
            opening.task = self._loop.create_task(self._open(place, partition, opening))
        opening.waiting[waiter] = (then, refuse)
        return opening

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
        if not opening.waiting:
            return  # all have given up: nobody would ever close it
        self._shares[place] = share
        self._pulse.start()
        for then, _ in list(opening.waiting.values()):
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
                found = await self._states.read_share(request)
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
        self._sequence = max(self._sequence, found.sequence)
        # Who led before may have leased until it saw that it leads no more.
        alone_from_ms = self._now_ms() + (0 if replica.is_alone else _FORMER_LEADER_MS)
        if found.is_known:
            log_end = replica.log.next_offset
            machine = SharePartition.restore(found.state, settings, alone_from_ms, log_end)
        else:
            # The end, not the high watermark: a new leader does not know that one at first.
            machine = SharePartition.fresh(self._beginning(partition, found), settings)

        async def write(state: bytes) -> None:
            self._sequence += 1
            written = await self._states.write_share(
                pb.WriteShareRequest(
                    sequence=self._sequence,
                    group=place.group,
                    topic_id=place.topic_id,
                    partition=place.partition,
                    leader_term=term,
                    state=state,
                    incarnation=found.incarnation,
                )
            )
            lease_ms, attempts_max = written.lease_ms, written.attempts_max
            known = machine.settings
            # A coordinator of an earlier version does not say.
            if lease_ms and (lease_ms, attempts_max) != (known.lease_ms, known.attempts_max):
                # Whatever is leased from now on, and fails.
                machine.settings = replace(known, lease_ms=lease_ms, attempts_max=attempts_max)

        log = ShareLog(
            partition,
            self._budget,
            is_ordered_by_key=said.ordered_by_key,
            compiled=self._filters.compiled(said.filter) if said.filter.ByteSize() else None,
        )
        around = Surroundings(
            loop=self._loop,
            now_ms=self._now_ms,
            write=partial(self._keeper.keep, write),
            alone_from_ms=alone_from_ms if found.is_known else 0,
            is_steady=lambda: replica.is_alone or self._pulse.is_steady,
            draw=random.random,
            turns=self._turns,
            dead_letters=self._dead_letters,
            ended=lambda share, state: self._ended(place, share, write, state),
        )
        return Share(place.group, partition, term, machine, log, around)

    def _beginning(self, partition: Partition, found: pb.ReadShareResponse) -> int:
        """Where a group that has no place in the partition yet begins."""
        log = partition.replica.log
        end = log.next_offset
        if found.HasField("start_ago_ms"):
            at_ms = max(self._clock.now_ms() - found.start_ago_ms, 0)
            first = log.offset_for_time(at_ms, end)
            return end if first is None else first[0]
        return end if found.settings.start_latest else log.start_offset

    def _hold(self, share: Share, holder: Holder) -> bool:
        """What the member holds ends with its connection. False if that has ended before."""
        connection = holder.connection
        if not connection.is_open:
            share.go_on()  # perhaps it is nobody's
            return False
        share.holders.add(holder)
        held = self._held.get(holder)
        if held is None:
            held = self._held[holder] = {}
            self._names[connection] += 1
            connection.on_close(holder, lambda: self._gone(holder))
        held[share] = None
        return True

    def _gone(self, holder: Holder) -> None:
        for share in self._forget(holder):
            share.holders.discard(holder)
            if all(other.member != holder.member for other in share.holders):
                # Else it has connected again, before the end of the former connection was seen:
                # what it was leased since then it still has.
                share.drop_member(holder.member)

    def _let_go(self, share: Share, holder: Holder) -> None:
        share.holders.discard(holder)
        held = self._held.get(holder)
        if held is not None:
            held.pop(share, None)
            if not held:
                self._forget(holder)
                holder.connection.forget(holder)

    def _forget(self, holder: Holder) -> dict[Share, None]:
        self._names[holder.connection] -= 1
        if not self._names[holder.connection]:
            del self._names[holder.connection]
        return self._held.pop(holder)

    def _ended(self, place: Place, share: Share, write: Write, state: bytes | None) -> None:
        if self._shares.get(place) is share:
            del self._shares[place]
        for holder in list(share.holders):
            self._let_go(share, holder)
        if state is not None:
            self._closings[place] = closing = self._loop.create_task(_close(write, state))
            closing.add_done_callback(lambda _: self._closings.pop(place, None))

    def _on_leadership(self, partition: Partition, is_leader: bool) -> None:
        del is_leader  # by now it may be otherwise
        for share in [one for one in self._shares.values() if one.partition is partition]:
            if not share.is_led:
                share.end(NotLeader())


class _Opening:
    """Those who wait until it is read where the group stands."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None]
        # By the ask, or whom a settlement's outcome is told.
        self.waiting: dict[
            object, tuple[Callable[[Share], object], Callable[[PenstockError], None]]
        ] = {}
        # What is done for one that gives up: it asks again soon, and is the same holder then.
        self.instead: dict[Ask, tuple[Holder, Callable[[Share], object]]] = {}

    def give_up(self, ask: Ask) -> None:
        if self.waiting.pop(ask, None) is not None:
            holder, hold = self.instead.pop(ask)
            self.waiting[holder] = (hold, lambda _: None)

    def refuse_all(self, error: PenstockError) -> None:
        waiting, self.waiting = self.waiting, {}
        for _, refuse in waiting.values():
            refuse(error)

    def forget_member(self, member: str) -> None:
        for waiter in list(self.waiting):
            if isinstance(waiter, (Ask, Holder)) and waiter.member == member:
                del self.waiting[waiter]


async def _close(write: Write, state: bytes) -> None:
    try:
        async with asyncio.timeout(_CLOSE_S_MAX):
            await write(state)
    except (TimeoutError, PenstockError) as error:
        # Some messages are in doubt for a while then, and nothing is lost.
        logger.info("A shared group was closed without its last words: %s", error)


def _place(group: str, partition: Partition) -> Place:
    return Place(group, partition.topic_id, partition.name.partition)
