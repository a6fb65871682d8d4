"""One shared group in one partition, on its leader: the machine decides, the coordinator of groups
keeps it, then it is answered.

What a lease is, is `coordination.delivery.shared_partition`'s. The invariants: a settlement is
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
from typing import Final, NamedTuple, Protocol

from penstock.broker.delivery.dead_letters import DeadLetters
from penstock.broker.delivery.shared.log import ShareLog
from penstock.broker.partitions.partition import Partition
from penstock.broker.turns.fair_turns import FairTurns, Unanswered, Work
from penstock.coordination.delivery.shared_partition import SharePartition, last_state
from penstock.coordination.delivery.shared_settings import DeadMessage, Lease, Settlement
from penstock.coordination.delivery.unanswered import give_back, held_until_ms
from penstock.coordination.delivery.window.message_state import Kind
from penstock.model.errors import (
    InternalError,
    NotLeader,
    OffsetOutOfRange,
    PenstockError,
    StaleTerm,
    UnknownGroup,
)
from penstock.records.header import Buffer

logger = logging.getLogger(__name__)

# Between two tries to bury the same message.
_BURY_AGAIN_MS: Final = 1_000
# The loop's timers need not reach further.
_TIMER_MS_MAX: Final = 60 * 60 * 1000
# Between two looks whether messages may be handed out again.
_UNSTEADY_MS: Final = 50


class Leased(NamedTuple):
    """What somebody gets."""

    leases: Sequence[Lease]
    payload: Sequence[Buffer]
    lease_ms: int
    firsts: Sequence[int] = ()
    """The first offset in each piece of the payload: they come as they were leased."""


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


class Connected(Protocol):
    """A client's connection, of either protocol."""

    @property
    def is_open(self) -> bool: ...

    def on_close(self, waiter: object, then: Callable[[], None], /) -> None: ...

    def forget(self, waiter: object, /) -> None: ...


class Holder(NamedTuple):
    """A member, and the connection with which what it holds ends."""

    connection: Connected
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
    """Have the state kept by the coordinator of groups, however long that takes."""
    alone_from_ms: int
    """From then on no former leader can believe that it leads. What is settled is told after it:
    one that has not heard of it could hand the message out again."""
    is_steady: Callable[[], bool]
    """False after this process stood still: another may lead since then."""
    draw: Callable[[], float]
    """From 0 to 1: spreads out what failed together."""
    turns: FairTurns
    """For filters, which may take long."""
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
        # Of these, the ones that the write under way has.
        self._in_write: list[tuple[Told, Outcomes]] = []
        # Durable, and not told yet: a former leader could still hand them out.
        self._early: list[tuple[Told, Outcomes]] = []
        # How it stands is on its way to the coordinator.
        self.saving: asyncio.Task[None] | None = None
        self._is_burying = False
        self._burying: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._feeding: asyncio.Handle | Work[bool] | None = None
        self._looker = Unanswered()
        self._is_over = False

    # --- what members do -----------------------------------------------------------------------

    def ask(self, ask: Ask) -> bool:
        """Lease messages to a member: now, or as soon as there are some. False if it waits."""
        if self._is_over:
            ask.refuse(NotLeader())
            return True
        self._waiting[ask] = None
        self.go_on()
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
        self.go_on()

    def give_back(self, member: str, leases: Sequence[Lease]) -> None:
        """What the member holds of these has not reached it, and is for others."""
        if not self._is_over:
            now_ms = self._around.now_ms()
            for lease in leases:
                give_back(self.machine, member, lease.first, lease.last, now_ms)
            self.go_on()

    def leased_again(self, member: str, leases: Sequence[Lease]) -> Leased | None:
        """What was leased to the member once more, if it holds all of it still. What takes long to
        open returns to the group: the member is silent, and is asked after, not served."""
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
        found = self._log.payload(leases, sys.maxsize)
        if found.too_many:
            self.give_back(member, leases)
            return None
        return Leased(found.leases, found.pieces, left_ms, found.firsts)

    def drop_member(self, member: str, *, is_lost: bool = True) -> None:
        """It is gone: what it held is for others. Unless it was lost, it only gives that back."""
        if not self._is_over:
            for ask in [ask for ask in self._waiting if ask.member == member]:
                del self._waiting[ask]
            self.machine.drop_member(member, self._around.now_ms(), is_lost=is_lost)
            self.go_on()

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
        if self.saving is not None:
            self.saving.cancel()
        self.refuse_waiting(error)
        unsaved = self._early + self._in_write + self._unsaved
        self._early, self._in_write, self._unsaved = [], [], []
        self._tell([(told, [error] * len(outcomes)) for told, outcomes in unsaved])
        self._around.ended(self, last_state)

    @property
    def is_led(self) -> bool:
        """Whether this broker leads the partition as it did when the state was read."""
        replica = self.partition.replica
        return self.partition.is_open and replica.is_leader and replica.term == self._term

    @property
    def _is_unused(self) -> bool:
        """Whether nobody could miss it: it is opened again for who comes next."""
        is_at_work = self._unsaved or self._early or self._is_burying
        return not (self.holders or self._waiting or self.saving or is_at_work)

    # --- going on ------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Do whatever can be done now; if nobody could miss this share, end it."""
        if self._is_over:
            return
        try:
            if not self.is_led:
                self.end(NotLeader())
                return
            now_ms, wait_ms_max = self._around.now_ms(), _TIMER_MS_MAX
            self.machine.expire(now_ms)
            if self._early and now_ms >= self._around.alone_from_ms:
                early, self._early = self._early, []
                self._tell(early)
            if self._waiting:
                if self._around.is_steady():
                    self._serve(now_ms)
                else:
                    wait_ms_max = _UNSTEADY_MS
            is_any_dying = self.machine.window.runs.counts[Kind.DYING] > 0
            if is_any_dying:
                self._bury()
            self._save()
            self._set_timer(now_ms, wait_ms_max)
            # Nobody else would bury what is dying, before a member comes again.
            if not is_any_dying and self._is_unused:
                self.end(NotLeader(), last_state(self.machine))
        except PenstockError as error:
            self.end(error)
        except Exception:
            logger.exception("Group %s cannot be served in %s", self.group, self.partition.name)
            self.end(InternalError())

    def _serve(self, now_ms: int) -> None:
        """Give those who wait what there is, the first first."""
        is_more = self._log.feed(self.machine, now_ms)
        if self.machine.window.runs.counts[Kind.AVAILABLE]:
            self._hand_out()
        if not self._waiting:
            return
        if self._log.must_open or (is_more and self._log.must_look):
            if self._feeding is None:
                self._feeding = self._around.turns.begin(
                    self._looker, self._log.look(self.machine), self._fed, self._not_fed
                )
        elif not is_more:
            self.partition.wait_for_more(self, self.go_on)
        elif self._feeding is None:
            self._feeding = self._around.loop.call_soon(self._fed, True)

    def _hand_out(self) -> None:
        for ask in list(self._waiting):
            if ask not in self._waiting:
                continue  # gone with the connection of one that was answered just now
            leased = self._lease(ask)
            if leased is None:
                break
            del self._waiting[ask]
            ask.answer(leased)

    def _fed(self, is_any: bool) -> None:
        self._feeding = None
        if is_any or not self.is_led:
            self.go_on()
        else:
            self.partition.wait_for_more(self, self.go_on)  # nothing there that could be read

    def _not_fed(self, error: PenstockError) -> None:
        self._feeding = None
        if isinstance(error, OffsetOutOfRange):
            self.go_on()  # the log was cut meanwhile: from where it begins
        else:
            self.end(error)

    def _lease(self, ask: Ask) -> Leased | None:
        machine, now_ms = self.machine, self._around.now_ms()
        while leases := machine.lease(ask.member, ask.messages_max, now_ms):
            found = self._log.payload(leases, ask.bytes_max)
            for first, last in found.gone:
                # Compaction has taken them since the log was read here.
                machine.settle(ask.member, first, last, Settlement.ACKNOWLEDGE, now_ms)
            for first, last in found.too_many:
                machine.settle(ask.member, first, last, Settlement.RELEASE, now_ms)
            for first, last, why in found.unreadable:
                machine.settle(ask.member, first, last, Settlement.REJECT, now_ms, reason=why)
            if found.leases:
                # The clock tells whole milliseconds: the present one may be almost over.
                lease_ms = machine.settings.lease_ms - 1
                return Leased(found.leases, found.pieces, lease_ms, found.firsts)
            if self._log.must_open:
                return None
        return None

    # --- what must be durable ------------------------------------------------------------------

    def _save(self) -> None:
        if self.saving is not None:
            return
        machine = self.machine
        is_raised = bool(self._waiting) and machine.ceiling_wanted is not None
        if self._unsaved or machine.is_changed or is_raised:
            self.saving = self._around.loop.create_task(self._keep())

    async def _keep(self) -> None:
        """Have the coordinator keep how it stands: also if whoever wanted it has given up by now,
        and will ask again."""
        error: PenstockError | None = None
        try:
            self._in_write, self._unsaved = self._unsaved, []
            snapshot = self.machine.snapshot()
            await self._around.write(snapshot.state)
            self.machine.durable(snapshot)
            self._early += self._in_write
            self._in_write = []
        except (StaleTerm, UnknownGroup):
            # Another leads, or the group was made anew: whoever asks again finds out what holds.
            error = NotLeader()
        except PenstockError as refused:
            error = refused
        except Exception:
            logger.exception("Group %s cannot be kept in %s", self.group, self.partition.name)
            error = InternalError()
        self.saving = None
        if error is None:
            self.go_on()  # which saves once more what has changed meanwhile
        else:
            self.end(error)

    def _tell(self, settled: Sequence[tuple[Told, Outcomes]]) -> None:
        for told, outcomes in settled:
            try:
                told(outcomes)
            except Exception:
                # It is that one's trouble: the others are told all the same.
                logger.exception("Somebody of group %s could not be told", self.group)

    # --- dead letters --------------------------------------------------------------------------

    def _bury(self) -> None:
        if self._is_burying or not (dead := self.machine.take_dead()):
            return
        self._is_burying = True

        def durable(_: Outcomes) -> None:
            # Not before: another leader would hand out what is among the dead letters already.
            if not self._is_over:
                self._burying = self._around.loop.create_task(self._carry(dead))

        self._unsaved.append((durable, ()))

    async def _carry(self, dead: Sequence[DeadMessage]) -> None:
        try:
            await self._around.dead_letters.bury(self.group, self.partition, dead)
        except Exception as error:
            # Also one of ours: the messages must not be left between life and death.
            logger.warning(
                "%d messages of %s cannot become dead letters of group %s now: %s",
                len(dead),
                self.partition.name,
                self.group,
                error if isinstance(error, PenstockError) else repr(error),
            )
            again_ms = self._around.now_ms() + _BURY_AGAIN_MS
            for one in dead:
                self.machine.not_buried(one.offset, again_ms)
        else:
            for one in dead:
                self.machine.buried(one.offset)
        self._is_burying = False
        self.go_on()

    # --- time ----------------------------------------------------------------------------------

    def _set_timer(self, now_ms: int, wait_ms_max: int) -> None:
        """Wake up for what is due next. One that wakes too early sleeps again."""
        due_ms = now_ms + wait_ms_max
        if self._early:
            due_ms = min(due_ms, self._around.alone_from_ms)
        if self._timer is not None:
            if self._timer_at_ms <= min(due_ms, self.machine.window.timers.soonest_ms):
                return
            self._timer.cancel()
            self._timer = None
        if (deadline_ms := self.machine.deadline_ms) is not None:
            due_ms = min(due_ms, deadline_ms)
        if not self._is_over:
            self._timer_at_ms = due_ms
            wait_s = max(due_ms - now_ms, 1) / 1000
            self._timer = self._around.loop.call_later(wait_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.go_on()
