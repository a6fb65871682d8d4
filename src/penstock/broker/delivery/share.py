"""One shared group in one partition, on its leader: the machine decides, the coordinator of groups
keeps it, then it is answered.

What a lease is, is `coordination.delivery.share_partition`'s. The invariants: a settlement is
answered when the coordinator has it durably; nothing is leased that it does not know may be; and
after `end` nobody waits here any more.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, NamedTuple

from penstock.broker.delivery.dead_letters import DeadLetters
from penstock.broker.delivery.share_log import ShareLog
from penstock.broker.partition import Partition
from penstock.broker.session import Session
from penstock.coordination.delivery.share_partition import SharePartition, last_state
from penstock.coordination.delivery.share_settings import DeadMessage, Lease, Settlement
from penstock.coordination.delivery.unanswered import give_back, held_until_ms
from penstock.model.errors import InternalError, NotLeader, PenstockError
from penstock.records.header import Buffer

logger = logging.getLogger(__name__)

# Between two tries to have the state kept, while the coordinator is being elected or read.
_RETRY_S: Final = 0.1
# Between two tries to bury the same message.
_BURY_AGAIN_MS: Final = 1_000
# The loop's timers need not reach further.
_TIMER_S_MAX: Final = 60 * 60.0


class Leased(NamedTuple):
    """What somebody gets."""

    leases: Sequence[Lease]
    payload: Sequence[Buffer]
    lease_ms: int


class Ask(ABC):
    """A member that wants messages. The handler's subclass says how it is told; once."""

    __slots__ = ("bytes_max", "is_given_up", "member", "messages_max")

    def __init__(self, member: str, messages_max: int, bytes_max: int) -> None:
        self.is_given_up = False
        self.member = member
        self.messages_max = messages_max
        self.bytes_max = bytes_max

    @abstractmethod
    def answer(self, leased: Leased) -> None: ...

    @abstractmethod
    def refuse(self, error: PenstockError) -> None: ...


class Holder(NamedTuple):
    """A member, and the connection with which what it holds ends."""

    session: Session
    member: str


class Settled(NamedTuple):
    """What became of messages, as a member says it."""

    first: int
    last: int
    kind: Settlement
    delay_ms: int = 0
    reason: str = ""


Outcomes = Sequence[PenstockError | None]
Told = Callable[[Outcomes], None]
"""Is given an error, or None, for each of several settlements, once all of them are durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What of a broker a share needs."""

    loop: asyncio.AbstractEventLoop
    now_ms: Callable[[], int]
    """Wall time that does not jump."""
    write: Callable[[bytes], Awaitable[None]]
    """Have the state kept by the coordinator of groups."""
    draw: Callable[[], float]
    """From 0 to 1: spreads out what failed together."""
    dead_letters: DeadLetters
    ended: Callable[[Share, bytes | None], None]
    """Told once, with a state to keep if nothing was held any more: then nothing is in doubt."""


class Share:
    """All calls come from the event loop."""

    def __init__(
        self,
        group: str,
        partition: Partition,
        term: int,
        machine: SharePartition,
        log: ShareLog,
        around: Surroundings,
    ) -> None:
        self.group = group
        self.partition = partition
        self.machine = machine
        # Whose connections end what they hold.
        self.holders: set[Holder] = set()
        self._term = term
        self._log = log
        self._around = around
        self._waiting: dict[Ask, None] = {}
        # Settled in memory, and not durable yet.
        self._unsaved: list[tuple[Told, Outcomes]] = []
        self._saving: asyncio.Task[None] | None = None
        self._burying: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._feeding: asyncio.Handle | None = None
        self._is_over = False

    # --- what members do -----------------------------------------------------------------------

    def ask(self, ask: Ask) -> bool:
        """Lease messages to a member: now, or as soon as there are some. False if it waits."""
        if self._is_over:
            ask.refuse(NotLeader())
            return True
        self._waiting[ask] = None
        self._go_on()
        return ask not in self._waiting

    def give_up(self, ask: Ask) -> None:
        """It waits no longer, and is told nothing."""
        self._waiting.pop(ask, None)

    def settle(self, member: str, settled: Sequence[Settled], told: Told) -> None:
        """What became of leased messages, of each range on its own."""
        if self._is_over:
            told([NotLeader()] * len(settled))
            return
        now_ms = self._around.now_ms()
        outcomes: list[PenstockError | None] = []
        for first, last, kind, delay_ms, reason in settled:
            try:
                self.machine.settle(
                    member,
                    first,
                    last,
                    kind,
                    now_ms,
                    delay_ms=delay_ms,
                    jitter=self._around.draw(),
                    reason=reason,
                )
                outcomes.append(None)
            except PenstockError as error:
                outcomes.append(error)
        self._unsaved.append((told, outcomes))
        self._go_on()

    def give_back(self, member: str, leases: Sequence[Lease]) -> None:
        """What the member holds of these has not reached it, and is for others."""
        if not self._is_over:
            now_ms = self._around.now_ms()
            for lease in leases:
                give_back(self.machine, member, lease.first, lease.last, now_ms)
            self._go_on()

    def leased_again(self, member: str, leases: Sequence[Lease]) -> Leased | None:
        """What was leased to the member once more, if it holds all of it still."""
        if self._is_over:
            return None
        ends_ms = []
        for lease in leases:
            end_ms = held_until_ms(self.machine, member, lease.first, lease.last)
            if end_ms is None:
                return None
            ends_ms.append(end_ms)
        left_ms = min(ends_ms) - self._around.now_ms()
        if left_ms <= 0:
            return None
        pieces, _ = self._log.payload(leases, sys.maxsize)
        return Leased(leases, pieces, left_ms)

    def drop_member(self, member: str) -> None:
        """It is gone: what it held is for others."""
        if not self._is_over:
            for ask in [ask for ask in self._waiting if ask.member == member]:
                del self._waiting[ask]
            self.machine.drop_member(member, self._around.now_ms())
            self._go_on()

    def refuse_waiting(self, error: PenstockError) -> None:
        """Nobody waits here any longer; what is held is held."""
        waiting, self._waiting = self._waiting, {}
        for ask in waiting:
            ask.refuse(error)

    def end(self, error: PenstockError, last_state: bytes | None = None) -> None:
        """This broker does not lead any more, or the group or the topic is gone."""
        if self._is_over:
            return
        self._is_over = True
        for handle in (self._timer, self._feeding):
            if handle is not None:
                handle.cancel()
        self.partition.stop_waiting(self)
        if self._burying is not None:
            self._burying.cancel()
        if self._saving is not None:
            self._saving.cancel()
        self.refuse_waiting(error)
        unsaved, self._unsaved = self._unsaved, []
        for told, outcomes in unsaved:
            told([error] * len(outcomes))
        self._around.ended(self, last_state)

    @property
    def is_led(self) -> bool:
        """Whether this broker leads the partition as it did when the state was read."""
        replica = self.partition.replica
        return self.partition.is_open and replica.is_leader and replica.term == self._term

    @property
    def _is_unused(self) -> bool:
        """Whether nobody could miss it: it is opened again for who comes next."""
        return not (self.holders or self._waiting or self._unsaved or self._saving)

    # --- going on ------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Do whatever can be done now."""
        if self._is_over:
            return
        try:
            if not self.is_led:
                self.end(NotLeader())
                return
            self.machine.expire(self._around.now_ms())
            self._serve()
            self._bury()
            self._save()
            self._set_timer()
            if self._is_unused and self._burying is None:
                self.end(NotLeader(), last_state(self.machine))
        except PenstockError as error:
            self.end(error)
        except Exception:
            logger.exception("Group %s cannot be served in %s", self.group, self.partition.name)
            self.end(InternalError())

    def _serve(self) -> None:
        """Give those who wait what there is, the first first."""
        if not self._waiting:
            return
        is_more = self._log.feed(self.machine, self._around.now_ms())
        for ask in list(self._waiting):
            leased = self._lease(ask)
            if leased is None:
                break
            self._waiting.pop(ask, None)
            ask.answer(leased)
        if not self._waiting:
            return
        if is_more and self._feeding is None:
            self._feeding = self._around.loop.call_soon(self._feed_on)
        elif not is_more:
            self.partition.wait_for_more(self, self._go_on)

    def _feed_on(self) -> None:
        self._feeding = None
        self._go_on()

    def _lease(self, ask: Ask) -> Leased | None:
        machine, now_ms = self.machine, self._around.now_ms()
        leases = machine.lease(ask.member, ask.messages_max, now_ms)
        if not leases:
            return None
        pieces, fitting = self._log.payload(leases, ask.bytes_max)
        if len(fitting) < len(leases) or fitting[-1] != leases[-1]:
            for lease, fits in zip_longest(leases, fitting):
                first = lease.first if fits is None else fits.last + 1
                if first <= lease.last:
                    machine.settle(ask.member, first, lease.last, Settlement.RELEASE, now_ms)
        return Leased(fitting, pieces, machine.settings.lease_ms)

    # --- what must be durable ------------------------------------------------------------------

    def _save(self) -> None:
        if self._saving is None and self._is_unsaved:
            self._saving = self._around.loop.create_task(self._keep())

    @property
    def _is_unsaved(self) -> bool:
        machine = self.machine
        is_raised = bool(self._waiting) and machine.ceiling_wanted is not None
        return bool(self._unsaved) or machine.is_changed or is_raised

    async def _keep(self) -> None:
        """Have the coordinator keep how it stands, and again if that changed meanwhile."""
        try:
            while self._is_unsaved and not self._is_over:
                unsaved, self._unsaved = self._unsaved, []
                snapshot = self.machine.snapshot()
                try:
                    await self._written(snapshot.state)
                except BaseException:
                    self._unsaved = unsaved + self._unsaved
                    raise
                self.machine.durable(snapshot)
                for told, outcomes in unsaved:
                    told(outcomes)
                self._go_on()
        except PenstockError as error:
            self._saving = None
            self.end(error)
        else:
            self._saving = None
            self._go_on()

    async def _written(self, state: bytes) -> None:
        while True:
            try:
                await self._around.write(state)
                return
            except PenstockError as error:
                if not error.retriable:
                    raise
                logger.info("Group %s in %s: %s", self.group, self.partition.name, error)
            await asyncio.sleep(_RETRY_S)

    # --- dead letters --------------------------------------------------------------------------

    def _bury(self) -> None:
        if self._burying is None and (dead := self.machine.take_dead()):
            self._burying = self._around.loop.create_task(self._carry(dead))

    async def _carry(self, dead: Sequence[DeadMessage]) -> None:
        try:
            await self._around.dead_letters.bury(self.group, self.partition, dead)
        except PenstockError as error:
            logger.warning(
                "%d messages of %s cannot become dead letters of group %s now: %s",
                len(dead),
                self.partition.name,
                self.group,
                error,
            )
            again_ms = self._around.now_ms() + _BURY_AGAIN_MS
            for one in dead:
                self.machine.not_buried(one.offset, again_ms)
        else:
            for one in dead:
                self.machine.buried(one.offset)
        self._burying = None
        self._go_on()

    # --- time ----------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.machine.deadline_ms
        if deadline_ms is not None and not self._is_over:
            wait_s = min(max(deadline_ms - self._around.now_ms(), 1) / 1000, _TIMER_S_MAX)
            self._timer = self._around.loop.call_later(wait_s, self._go_on)
