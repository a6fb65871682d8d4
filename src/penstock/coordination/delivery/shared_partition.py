"""Who of a shared group works on which messages of a partition: leases (R-DEL-3, R-DEL-11).

The machine of one group in one partition, at the partition's leader. Not reading of messages, nor
writing of states and dead letters: the shell does these, and says when they are durable. No clock:
`now_ms` is the time since 1970, and does not go back.

    machine = SharePartition.fresh(start, settings)         # or .restore(bytes, ...)
    while (offset := machine.wanted) is not None: ...       # read the log from there on
        machine.offer(offset, end, now_ms)
    machine.lease("a", 500, now_ms)                         # [] at first: nothing is durable
    if machine.is_changed or machine.ceiling_wanted is not None: ...
        snapshot = machine.snapshot()                       # write snapshot.state, one at a time,
        machine.durable(snapshot)                           # and say when it is durable
    machine.lease("a", 500, now_ms)                         # [Lease(first=0, last=99, attempt=1)]
    machine.settle("a", 0, 99, Settlement.ACKNOWLEDGE, now_ms)
    ...                                                     # answered when a snapshot is durable
                                                            # that was taken after it
    machine.deadline_ms                                     # when to call machine.expire(now_ms)
    for dead in machine.take_dead(): ...                    # copy, then buried or not_buried

The invariants:
- A message is with one member at most, and after it is done it is with nobody ever again.
- Nothing at or above the durable ceiling is leased. So a new leader knows, from the last durable
  state, which messages the former one may have leased; it hands those out only after `lease_ms`.
- Every message that is offered and not done is handed out again, unless it expires or dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, assert_never

from penstock.coordination.delivery.ceiling import Ceiling
from penstock.coordination.delivery.dying import Dying
from penstock.coordination.delivery.shared_settings import (
    DeadMessage,
    Lease,
    Settlement,
    ShareSettings,
)
from penstock.coordination.delivery.shared_state import (
    ShareState,
    decode_share_state,
    encode_share_state,
)
from penstock.coordination.delivery.takeover import present_part, saved_run, take_over
from penstock.coordination.delivery.window.message_details import MessageDetails
from penstock.coordination.delivery.window.message_state import Kind, State
from penstock.coordination.delivery.window.runs import Piece
from penstock.coordination.delivery.window.window import Window
from penstock.model.errors import InvalidDelay, InvalidRequest, UnknownLease
from penstock.model.limits import (
    SHARE_ATTEMPTS_MAX,
    SHARE_DELAY_MS_MAX,
    SHARE_REASON_CHARACTERS_MAX,
)

# Pieces that an error names.
_PIECES_TOLD_MAX: Final = 4

_WORDS: Final = {
    Kind.DONE: "done",
    Kind.AVAILABLE: "nobody's",
    Kind.LEASED: "another member's",
    Kind.WAITING: "waiting to be tried again",
    Kind.BLOCKED: "behind an earlier one of the key",
    Kind.AWAITED: "nobody's",
    Kind.DYING: "on the way to the dead letters",
}


class Snapshot(NamedTuple):
    """A state to write. The shell gives it back when it is durable."""

    state: bytes
    ceiling: int
    settled: tuple[int, ...]
    """Messages of ordered groups whose key may go on when this is durable."""
    mark: tuple[int, ...]
    """Which changes it has."""


class ShareCounts(NamedTuple):
    """Messages of the window by what they are in, and totals since the group began."""

    available: int
    leased: int
    in_doubt: int
    waiting: int
    blocked: int
    dying: int
    acknowledged_total: int
    expired_total: int
    dead_total: int


class SharePartition:
    """Leases of one group in one partition."""

    def __init__(self, settings: ShareSettings, state: ShareState) -> None:
        self.settings = settings
        self.window = Window(
            state.start,
            state.ceiling,
            expired=state.expired,
            is_ordered=settings.is_ordered_by_key,
        )
        """For those who describe it; only the machine changes it."""
        self._dying = Dying(self.window)
        self._ceiling = Ceiling(settings.window_max)
        self._acknowledged = state.acknowledged
        self._dead = state.dead
        self._changes = 0
        self._durable_mark: tuple[int, ...] = ()

    @classmethod
    def fresh(cls, start_offset: int, settings: ShareSettings) -> SharePartition:
        """Of a group that has no place in the partition yet, or is given another."""
        return cls(settings, ShareState(start=start_offset, ceiling=start_offset))

    @classmethod
    def restore(
        cls, state: bytes, settings: ShareSettings, now_ms: int, log_end: int
    ) -> SharePartition:
        """Go on where a former leader was. CorruptLog if the bytes cannot be read.

        log_end: behind the last message of the log, committed or not, when the leader began to
        lead or later. What is appended after that nobody can have leased, or be done with. (The
        high watermark will not do: at first a leader does not know how far it is.)
        """
        saved = present_part(decode_share_state(state), log_end)
        machine = cls(settings, saved)
        machine._durable_mark = (0, saved.start, saved.expired)
        take_over(machine.window, machine._dying, saved, now_ms + settings.lease_ms, log_end)
        return machine

    # --- the log -------------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """Everything before it is done."""
        return self.window.runs.start

    @property
    def wanted(self) -> int | None:
        """Where the log is to be read from next. None while the window is full; and, of an ordered
        group, while messages were settled that were not read here, until that is durable."""
        fed = self.window.fed
        if self.settings.is_ordered_by_key and not self.window.deviations.is_complete:
            return None
        return fed if fed < self.window.runs.start + self.settings.window_max else None

    def offer(
        self,
        first: int,
        end: int,
        now_ms: int,
        *,
        skipped: Sequence[tuple[int, int]] = (),
        details: Sequence[MessageDetails] = (),
    ) -> int | None:
        """The log has committed messages from `first`, which is `wanted`, up to `end`.

        skipped: ranges (first, end) of offsets that are not for this group: taken out by a filter,
        by compaction, or no messages at all. details: of those that have some, by rising offset.
        What does not fit into the window is left out. Returns what is `wanted` now.
        """
        assert first == self.window.fed, (first, self.window.fed)
        end = min(end, self.window.runs.start + self.settings.window_max)
        if first < end:
            if details and not self.settings.is_ordered_by_key:
                details = [each._replace(key=None) for each in details]
            self.window.feed(end, skipped, details, now_ms)
        return self.wanted

    def forget_before(self, log_start: int) -> None:
        """Retention took what is before from the log."""
        if log_start > self.window.runs.start:
            self.window.forget_before(log_start)

    # --- leases --------------------------------------------------------------------------------

    def lease(self, member: str, messages_max: int, now_ms: int) -> list[Lease]:
        """Messages for this member, until `lease_ms` have passed: higher priorities first, then in
        the log's order. Fewer than asked for where there are no more beneath the ceiling."""
        self.expire(now_ms)
        window, ready, left = self.window, self.window.ready, messages_max
        leases: list[Lease] = []
        until_ms = now_ms + self.settings.lease_ms
        given = 0
        while left > 0 and (piece := ready.next()) is not None:
            first, end, state = piece
            end = min(end, first + left)
            assert state.kind is Kind.AVAILABLE, (first, end, state)
            assert first < end, (first, end, left)
            assert end <= ready.ceiling, (end, ready.ceiling)
            ready.take()
            window.change(first, end, State(Kind.LEASED, state.attempts, member, until_ms))
            attempt = state.attempts + 1
            leases.append(Lease(first, end - 1, max(attempt, 1 + state.is_doubtful)))
            left -= end - first
            given = state.priority
            self._ceiling.leased(end, end - first)
        above = ready.next_above()
        if above is not None and (left > 0 or above[2].priority > given):
            # Also for one that should have come before these: it comes before the next.
            self._ceiling.asked(min(above[0] + max(left, 1), window.fed))
        return leases

    def settle(
        self,
        member: str,
        first: int,
        last: int,
        kind: Settlement,
        now_ms: int,
        *,
        delay_ms: int = 0,
        jitter: float = 0.0,
        reason: str = "",
    ) -> None:
        """What became of the messages from `first` to `last`: of all, or UnknownLease and of none.

        To be answered when a snapshot taken afterwards is durable. delay_ms: of a release, how long
        nobody gets it. jitter: drawn from 0 to 1, for the backoff of a failure. Who is given more
        than it can take, and releases the rest at once, gives it back as if it had not been leased.
        """
        if not 0 <= first <= last:
            raise InvalidRequest(f"A settlement is of messages {first} to {last}: turn them round.")
        if not 0 <= delay_ms <= SHARE_DELAY_MS_MAX:
            raise InvalidDelay(
                f"A message is released for {delay_ms} ms: 0 to {SHARE_DELAY_MS_MAX} ms can be."
            )
        self.expire(now_ms)
        end = last + 1
        pieces = self.window.runs.pieces(first, end)
        held = 0
        for low, high, state in pieces:
            if state.is_settled_by(member):
                held += high - low
        if held < end - first:
            raise UnknownLease(_why_not(member, first, end, pieces))
        reason = reason[:SHARE_REASON_CHARACTERS_MAX]
        for piece in pieces:
            self._settle_piece(piece, member, kind, now_ms, delay_ms, jitter, reason)

    def _settle_piece(
        self,
        piece: Piece,
        member: str,
        kind: Settlement,
        now_ms: int,
        delay_ms: int,
        jitter: float,
        reason: str,
    ) -> None:
        first, end, state = piece
        window, attempts = self.window, state.attempts
        match kind:
            case Settlement.ACKNOWLEDGE:
                window.finish(first, end)
                self._acknowledged += end - first
                self._changes += 1
            case Settlement.RELEASE:
                until_ms = max(now_ms + delay_ms, _held_until_ms(state))
                window.free(first, end, attempts, now_ms, until_ms=until_ms)
                self._changes += until_ms > now_ms
            case Settlement.EXTEND:
                until_ms = max(now_ms + self.settings.lease_ms, _held_until_ms(state))
                extended = State(Kind.LEASED, attempts, member, until_ms)
                if state.kind is Kind.IN_DOUBT:
                    extended = state._replace(until_ms=until_ms)
                window.change(first, end, extended)
            case Settlement.REJECT:
                reason = reason or "Rejected, without a reason."
                self._dying.add(first, end, State(Kind.DYING, attempts + 1, reason=reason))
                self._changes += 1
            case Settlement.FAIL:
                backoff_ms = self.settings.backoff_after_ms(attempts + 1, jitter)
                self._fail(piece, now_ms, backoff_ms, reason or "Failed, without a reason.")
            case Settlement.ABANDON:
                reason = reason or "Its consumer left without saying what became of it."
                self._fail(piece, now_ms, 0, reason)
            case _:
                assert_never(kind)

    def _fail(self, piece: Piece, now_ms: int, backoff_ms: int, reason: str) -> None:
        """An attempt failed: another follows, or it was the last."""
        first, end, state = piece
        attempts = state.attempts + 1
        self._changes += 1
        if attempts >= self.settings.attempts_max:
            self._dying.add(first, end, State(Kind.DYING, attempts, reason=reason))
        else:
            until_ms = max(now_ms + backoff_ms, _held_until_ms(state))
            self.window.free(first, end, attempts, now_ms, until_ms=until_ms)

    def drop_member(self, member: str, now_ms: int, *, is_lost: bool = True) -> None:
        """The member is gone: what it held is for the others, at once. With its connection lost
        that was an attempt; a member that leaves has not begun with what it still holds."""
        self.expire(now_ms)
        if member not in self.window.runs.held:
            return
        for piece in list(self.window.runs):
            first, end, state = piece
            if state.kind is not Kind.LEASED or state.member != member:
                continue
            if is_lost:
                self._fail(piece, now_ms, 0, "The connection of its consumer was lost.")
            else:
                self.window.free(first, end, state.attempts, now_ms)

    # --- time ----------------------------------------------------------------------------------

    def expire(self, now_ms: int) -> None:
        """End what has come to its time: leases, backoffs, doubts, messages."""
        if now_ms < self.window.timers.soonest_ms:
            return
        for piece in self.window.lapse(now_ms):
            first, end, state = piece
            match state.kind:
                case Kind.LEASED:
                    self._fail(piece, now_ms, 0, "The lease ran out.")
                case Kind.IN_DOUBT:
                    # Nobody knows whether there was an attempt: it does not count as one.
                    self.window.free(first, end, state.attempts, now_ms, is_doubtful=True)
                case Kind.WAITING:
                    self.window.free(first, end, state.attempts, now_ms)
                case Kind.DYING:
                    self._dying.add(first, end, state._replace(until_ms=0))
                case _:
                    raise AssertionError(piece)

    @property
    def deadline_ms(self) -> int | None:
        """When `expire` has something to do."""
        return self.window.timers.next_ms()

    # --- the dead ------------------------------------------------------------------------------

    def take_dead(self, messages_max: int = 100) -> list[DeadMessage]:
        """Messages to copy to the dead letters, each told once: then `buried` or `not_buried`."""
        return self._dying.take(messages_max)

    def buried(self, offset: int) -> None:
        """Its dead letter is durable."""
        if self._dying.bury(offset):
            self._dead += 1
            self._changes += 1

    def not_buried(self, offset: int, retry_at_ms: int) -> None:
        """Its dead letter could not be written: `take_dead` tells it again then."""
        self._dying.retry(offset, retry_at_ms)

    # --- what is durable -----------------------------------------------------------------------

    @property
    def is_changed(self) -> bool:
        """Whether a snapshot would say something that is not durable, other than a ceiling. So of
        a group that is fresh: where it began must not be decided twice."""
        # The window begins elsewhere, and messages expire, also when nobody settles any.
        window = self.window
        return self._durable_mark != (self._changes, window.runs.start, window.expired)

    @property
    def ceiling_wanted(self) -> int | None:
        """Up to where members would have the ceiling, if that is worth a write."""
        return self._ceiling.wanted(self.window.ready.ceiling, self.window.runs.start)

    def snapshot(self) -> Snapshot:
        """The state to write now: everything that was settled, and a ceiling that is raised."""
        window, start = self.window, self.window.runs.start
        ceiling = self._ceiling.next(window.ready.ceiling, start)
        self._ceiling.written()
        mark = (self._changes, start, window.expired)
        return Snapshot(self.state(ceiling), ceiling, window.deviations.unsaved, mark)

    def state(self, ceiling: int) -> bytes:
        """What there is to know, with this ceiling."""
        return encode_share_state(
            ShareState(
                start=self.window.runs.start,
                ceiling=ceiling,
                acknowledged=self._acknowledged,
                expired=self.window.expired,
                dead=self._dead,
                runs=[saved_run(piece) for piece in self.window.runs],
            )
        )

    def durable(self, snapshot: Snapshot) -> None:
        """The snapshot is durable. Settlements made before it was taken may be answered now."""
        ready = self.window.ready
        if snapshot.ceiling > ready.ceiling:
            ready.raise_ceiling(snapshot.ceiling)
        if snapshot.settled:
            self.window.saved(snapshot.settled)
        self._durable_mark = snapshot.mark

    # --- what is told --------------------------------------------------------------------------

    def counts(self) -> ShareCounts:
        counts = self.window.runs.counts
        return ShareCounts(
            available=counts[Kind.AVAILABLE] + counts[Kind.AWAITED],
            leased=counts[Kind.LEASED],
            in_doubt=counts[Kind.IN_DOUBT],
            waiting=counts[Kind.WAITING],
            blocked=counts[Kind.BLOCKED],
            dying=counts[Kind.DYING],
            acknowledged_total=self._acknowledged,
            expired_total=self.window.expired,
            dead_total=self._dead,
        )

    def lag(self, high_watermark: int) -> int:
        """Messages that the group is not done with."""
        return max(0, high_watermark - self.start - self.window.runs.counts[Kind.DONE])

    def check(self) -> None:
        """What holds between calls. For tests: it looks at everything."""
        self.window.check()
        runs, ceiling = self.window.runs, self.window.ready.ceiling
        for first, end, state in runs:
            if state.kind in (Kind.LEASED, Kind.IN_DOUBT):
                assert end <= ceiling, (first, end, ceiling, state)
            # Not how many the settings allow, which may have been more before: one that has failed
            # more often than that dies of its next failure.
            failures_left = state.kind is not Kind.DYING
            assert state.attempts + failures_left <= SHARE_ATTEMPTS_MAX, (first, state)
        assert runs.end - runs.start <= self.settings.window_max, (runs.start, runs.end)


def _held_until_ms(state: State) -> int:
    """Until when another than who settles it may hold it: one in doubt is taken to be that of
    whoever speaks of it, who may have lost it to another before."""
    return state.until_ms if state.kind is Kind.IN_DOUBT else 0


def _why_not(member: str, first: int, end: int, pieces: list[Piece]) -> str:
    """What stands against a settlement, and what the member may settle instead."""
    against, held = [], []
    for low, high, state in pieces:
        if state.is_settled_by(member):
            held.append(_told(low, high))
        else:
            against.append(f"{_told(low, high)} {_WORDS[state.kind]}")
    if sum(high - low for low, high, _ in pieces) < end - first:
        against.append(
            "the others done, or never handed out" if pieces else "done, or never handed out"
        )
    remedy = f"settle {_listed(held)} alone" if held else "go on with what is leased to it next"
    what = f"message {first}" if end == first + 1 else f"all of messages {_told(first, end)}"
    return f"Member {member[:80]!r} does not hold {what}: {_listed(against)}; {remedy}."


def _told(first: int, end: int) -> str:
    return str(first) if end == first + 1 else f"{first} to {end - 1}"


def _listed(parts: list[str]) -> str:
    told = ", ".join(parts[:_PIECES_TOLD_MAX])
    more = len(parts) - _PIECES_TOLD_MAX
    return f"{told} and {more} more" if more > 0 else told


def last_state(machine: SharePartition) -> bytes | None:
    """What to write when nobody leases from the machine ever again, and it is let go: with no lease
    about, whoever comes next need not wait for any. None while there is one."""
    counts = machine.counts()
    return None if counts.leased or counts.in_doubt else machine.state(machine.start)
