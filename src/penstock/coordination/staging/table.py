"""The staged writes of a broker: which attempts are staged, which epochs are decided, what may go.

The shell keeps the two topics and copies batches; here is what they mean. The invariants:

- An epoch of a write is decided at most once, and only after every epoch decided before it is in
  its partitions; a decision holds here only when its record is durable.
- A decision names only batches that are staged, all of them; until it is done they stay.
- The batches of an attempt are numbered from 0 without a gap, each staged once.
- Nothing is kept for ever: what no decision names goes with the next one of its write, when it is
  aborted, or when its epoch has been silent for too long.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.coordination.staging.records import (
    STAGED_TOPIC,
    Decision,
    NamedAttempt,
    StagedBatch,
    aborted,
    check_attempt,
    check_write,
    decode_decision,
)
from penstock.model.errors import Busy, CorruptLog, InvalidRequest, StagedBatchesMissing
from penstock.model.limits import (
    ATTEMPTS_PER_COMMIT_MAX,
    LAST_EPOCH_SILENCE_MS_MAX,
    STAGED_ATTEMPTS_MAX,
    STAGED_BATCHES_MAX,
    STAGED_SILENCE_MS_MAX,
    WRITE_SILENCE_MS_MAX,
    WRITES_MAX,
)


@dataclass(frozen=True, slots=True)
class New:
    """The batch is the next one of its attempt: to be staged, then told by `staged`."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """The batch was staged before."""

    offset: int


@dataclass(frozen=True, slots=True)
class Decided:
    """The epoch was decided before, by this decision or an earlier one of the same write: what is
    staged or named for it now does not count."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Later:
    """Another decision of the write has to be made, or to be done, first: ask again then."""

    unfinished: Decision | None
    """The one to be done first; None while it is still being made."""


@dataclass(frozen=True, slots=True)
class Complete:
    """All that the commit names is staged: the epoch may be decided, which has begun."""

    records: int


class _Attempt:
    """Hashed by identity. 8 bytes for each batch: there may be millions."""

    __slots__ = ("offsets", "records")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.records: array[int] = array("q")


class _Epoch:
    __slots__ = ("attempts", "last_ms")

    def __init__(self) -> None:
        self.attempts: dict[str, _Attempt] = {}
        self.last_ms = 0


class _Write:
    __slots__ = ("deciding", "decision", "epochs", "is_copied")

    def __init__(self) -> None:
        self.decision: Decision | None = None
        # The decision is in its partitions, though the record that says so may not be durable.
        self.is_copied = False
        self.deciding: int | None = None
        self.epochs: dict[int, _Epoch] = {}


class StagedWrites:
    """All calls come from one thread. Whoever calls has checked nothing."""

    def __init__(self) -> None:
        self._writes: dict[str, _Write] = {}
        # In the order of their first batches, so that the first holds the oldest one needed.
        self._attempts: OrderedDict[_Attempt, None] = OrderedDict()
        self._batch_count = 0
        # The names of writes whose last decision is not done: few of many.
        self._undone: set[str] = set()

    # --- staging -------------------------------------------------------------------------------

    def stage(self, batch: StagedBatch) -> New | Repeated | Decided:
        """What to do with a batch that somebody wants to stage."""
        check_write(batch.write, batch.epoch)
        check_attempt(batch.attempt)
        write = self._writes.get(batch.write)
        attempt = None
        if write is not None:
            if write.decision is not None and batch.epoch <= write.decision.epoch:
                return Decided(write.decision)
            if write.deciding is not None and batch.epoch <= write.deciding:
                raise Busy(f"Epoch {batch.epoch} of {batch.write!r} is being committed.")
            if batch.epoch in write.epochs:
                attempt = write.epochs[batch.epoch].attempts.get(batch.attempt)
        staged_count = 0 if attempt is None else len(attempt.offsets)
        if attempt is not None and batch.sequence < staged_count:
            return Repeated(attempt.offsets[batch.sequence])
        if batch.sequence != staged_count:
            raise StagedBatchesMissing(
                f"Attempt {batch.attempt} of {batch.write!r} stages batch {batch.sequence}, and "
                f"{staged_count} are there: those before it were dropped or never came; begin "
                "another attempt."
            )
        if write is None and len(self._writes) >= WRITES_MAX:
            raise _no_room("writes", WRITES_MAX)
        if attempt is None and len(self._attempts) >= STAGED_ATTEMPTS_MAX:
            raise _no_room("attempts", STAGED_ATTEMPTS_MAX)
        if self._batch_count >= STAGED_BATCHES_MAX:
            raise _no_room("batches", STAGED_BATCHES_MAX)
        return New()

    def staged(self, batch: StagedBatch, offset: int, now_ms: int) -> None:
        """The batch stands in `__staged` at the offset."""
        write = self._writes.get(batch.write)
        if write is None:
            write = self._writes[batch.write] = _Write()
        epoch = write.epochs.setdefault(batch.epoch, _Epoch())
        epoch.last_ms = max(epoch.last_ms, now_ms)
        attempt = epoch.attempts.get(batch.attempt)
        if attempt is None:
            attempt = epoch.attempts[batch.attempt] = _Attempt()
            self._attempts[attempt] = None
        assert batch.sequence == len(attempt.offsets), (batch, len(attempt.offsets))
        assert not attempt.offsets or attempt.offsets[-1] < offset, (batch, attempt.offsets[-1])
        attempt.offsets.append(offset)
        attempt.records.append(batch.records)
        self._batch_count += 1

    def unstaged(self, batch: StagedBatch, offset: int) -> None:
        """It could not be written after all, nor could what came after it."""
        write = self._writes.get(batch.write)
        epoch = None if write is None else write.epochs.get(batch.epoch)
        attempt = None if epoch is None else epoch.attempts.get(batch.attempt)
        if write is None or attempt is None:
            return  # it was dropped meanwhile
        if batch.sequence >= len(attempt.offsets) or attempt.offsets[batch.sequence] != offset:
            return  # one before it failed too, or it was dropped and staged anew
        self._batch_count -= len(attempt.offsets) - batch.sequence
        del attempt.offsets[batch.sequence :], attempt.records[batch.sequence :]
        if not attempt.offsets:
            self._drop(batch.write, write, batch.epoch, [batch.attempt])

    def abort(self, name: str, epoch_number: int, attempts: Iterable[str]) -> list[StagedBatch]:
        """Drop what these attempts staged, unless it is decided, or may be at any moment. The marks
        that say so: to be noted in `__staged` before anything else is, or what was dropped would
        come back when it is read again."""
        write = self._writes.get(name)
        if write is None or write.deciding == epoch_number or _is_decided(write, epoch_number):
            return []
        epoch = write.epochs.get(epoch_number)
        if epoch is None:
            return []
        doomed = [attempt for attempt in dict.fromkeys(attempts) if attempt in epoch.attempts]
        self._drop(name, write, epoch_number, doomed)
        return [aborted(name, epoch_number, attempt) for attempt in doomed]

    # --- deciding ------------------------------------------------------------------------------

    def commit(
        self,
        name: str,
        epoch_number: int,
        attempts: Sequence[NamedAttempt],
        durable_offset: int,
    ) -> Decided | Later | Complete:
        """What to do about a commit. After `Complete` the decision is being made, until either
        `decided` or `undecided`.

        durable_offset: what stands before it in `__staged` is durable. A decision that is durable
        before what it names might outlive it.
        """
        check_write(name, epoch_number)
        write = self._writes.get(name)
        if write is not None:
            if write.deciding is not None:
                return Later(None)
            if write.decision is not None:
                if epoch_number <= write.decision.epoch:
                    return Decided(write.decision)
                if not write.is_copied:
                    return Later(write.decision)
        _check_named(name, epoch_number, attempts)
        epoch = None if write is None else write.epochs.get(epoch_number)
        records = 0
        for named in attempts:
            offsets, counts = _find_staged(name, epoch_number, epoch, named)
            records += sum(counts)
            if offsets and offsets[-1] >= durable_offset:
                raise StagedBatchesMissing(
                    f"Attempt {named.attempt} of epoch {epoch_number} of {name!r} is not flushed "
                    "yet, and nothing is committed: wait until everything is staged."
                )
        if write is None:
            if len(self._writes) >= WRITES_MAX:
                raise _no_room("writes", WRITES_MAX)
            write = self._writes[name] = _Write()
        write.deciding = epoch_number
        return Complete(records)

    def undecided(self, name: str) -> None:
        """The decision could not be made: everything is as before."""
        write = self._writes[name]
        assert write.deciding is not None, f"{name!r} is not being decided"
        write.deciding = None
        self._forget_if_empty(name, write)

    def decided(self, decision: Decision) -> None:
        """The decision is durable. What it does not name, of this epoch and those before it, goes;
        so does what an earlier decision named, which is done by now."""
        before = self._writes[decision.write]
        assert before.deciding == decision.epoch, (before.deciding, decision)
        assert before.decision is None or before.decision.epoch < decision.epoch, decision
        write = self._take(decision)
        write.deciding = None
        self._drop_superseded(write, decision)

    def copied(self, name: str) -> None:
        """All of the write's decision is in its partitions."""
        write = self._writes[name]
        assert write.decision is not None, f"{name!r} has nothing to be copied"
        write.is_copied = True

    def done(self, name: str, epoch_number: int) -> None:
        """The record that says so is durable: nobody needs the staged batches any more."""
        write = self._writes.get(name)
        if write is None or write.decision is None or write.decision.epoch != epoch_number:
            return  # a later decision said the same
        decision = write.decision.done()
        self._take(decision)
        self._drop_superseded(write, decision)

    def forgotten(self, decision: Decision) -> None:
        """The record that nothing is decided under the write's name any more is durable."""
        write = self._writes.get(decision.write)
        if write is not None and write.decision == decision:
            write.decision = None
            self._forget_if_empty(decision.write, write)

    # --- what is known -------------------------------------------------------------------------

    def decision(self, name: str) -> Decision | None:
        """The write's last decision."""
        write = self._writes.get(name)
        return None if write is None else write.decision

    def is_copied(self, decision: Decision) -> bool:
        """Whether all of the decision is in its partitions."""
        write = self._writes.get(decision.write)
        if write is None or write.decision is None or write.decision.epoch != decision.epoch:
            return True  # a later one was made, or it was forgotten: neither before it was done
        return write.is_copied

    def unfinished(self) -> list[Decision]:
        """Decisions that are not done. Not those that the next one, which is being made, will
        say are done: a record that says so must not come after it."""
        writes = [self._writes[name] for name in sorted(self._undone)]
        return [
            write.decision
            for write in writes
            if write.decision is not None and write.deciding is None
        ]

    def staged_offsets(self, decision: Decision) -> list[array[int]]:
        """Where the batches of the decision are in `__staged`, of one attempt after the other.
        CorruptLog if some are gone, which no crash can do."""
        epoch = self._writes[decision.write].epochs.get(decision.epoch)
        try:
            return [
                _find_staged(decision.write, decision.epoch, epoch, named)[0]
                for named in decision.attempts
            ]
        except StagedBatchesMissing as error:
            raise CorruptLog(
                f"Epoch {decision.epoch} of {decision.write!r} is committed and cannot be written: "
                f"what was staged for it is gone from {STAGED_TOPIC}; restore it, or write under "
                "another name."
            ) from error

    def low_offset(self) -> int | None:
        """The oldest staged batch that is still needed; None if none is."""
        attempt = next(iter(self._attempts), None)
        return None if attempt is None else attempt.offsets[0]

    # --- time ----------------------------------------------------------------------------------

    def expire(self, now_ms: int, attempts_max: int) -> list[StagedBatch]:
        """Drop what was staged and left alone for too long, so much of it at most. The marks that
        say so, to be noted in `__staged`."""
        marks: list[StagedBatch] = []
        for name, write in list(self._writes.items()):
            for number, epoch in list(write.epochs.items()):
                is_needed = number == write.deciding or _is_decided(write, number)
                if not is_needed and now_ms - epoch.last_ms > STAGED_SILENCE_MS_MAX:
                    doomed = list(epoch.attempts)[: attempts_max - len(marks)]
                    marks += [aborted(name, number, attempt) for attempt in doomed]
                    self._drop(name, write, number, doomed)
            if len(marks) >= attempts_max:
                break
        return marks

    def forgettable(self, now_ms: int) -> list[Decision]:
        """Decisions of writes that have been silent for too long: to be told by `forgotten` when
        it is durable that they are."""
        found = []
        for write in self._writes.values():
            decision = write.decision
            if decision is None or not decision.is_done or write.epochs:
                continue
            silence_ms_max = LAST_EPOCH_SILENCE_MS_MAX if decision.is_last else WRITE_SILENCE_MS_MAX
            if write.deciding is None and now_ms - decision.decided_ms > silence_ms_max:
                found.append(decision)
        return found

    # --- reading the topics again --------------------------------------------------------------

    def replay_decision(self, key: bytes, value: bytes | None) -> None:
        """A record of `__writes`, in the order of the topic, before any of `__staged`."""
        if value is None:
            name = key.decode(errors="replace")
            self._writes.pop(name, None)
            self._undone.discard(name)
        else:
            self._take(decode_decision(key, value))

    def replay_staged(self, batch: StagedBatch, offset: int, timestamp_ms: int) -> None:
        """A record of `__staged`, in the order of the topic, after all of `__writes`."""
        write = self._writes.get(batch.write)
        decision = None if write is None else write.decision
        if decision is not None and (
            batch.epoch < decision.epoch or (batch.epoch == decision.epoch and decision.is_done)
        ):
            return
        epoch = None if write is None else write.epochs.get(batch.epoch)
        attempt = None if epoch is None else epoch.attempts.get(batch.attempt)
        staged_count = 0 if attempt is None else len(attempt.offsets)
        if write is not None and attempt is not None and batch.sequence != staged_count:
            # It was aborted, or expired and began again.
            self._drop(batch.write, write, batch.epoch, [batch.attempt])
            staged_count = 0
        if batch.sequence == staged_count:
            self.staged(batch, offset, timestamp_ms)
        # Else its beginning is gone from the topic, so it was dropped.

    def replayed(self) -> None:
        """All of both topics was read."""
        for decision in self.unfinished():
            self._drop_superseded(self._writes[decision.write], decision)

    # --- helpers -------------------------------------------------------------------------------

    def _take(self, decision: Decision) -> _Write:
        """Let it be the write's last."""
        write = self._writes.get(decision.write)
        if write is None:
            write = self._writes[decision.write] = _Write()
        write.decision = decision
        write.is_copied = decision.is_done
        if decision.is_done:
            self._undone.discard(decision.write)
        else:
            self._undone.add(decision.write)
        return write

    def _drop_superseded(self, write: _Write, decision: Decision) -> None:
        kept = dict(decision.attempts)  # by name
        for number, epoch in list(write.epochs.items()):
            if number <= decision.epoch:
                named = kept if number == decision.epoch else {}
                doomed = epoch.attempts.keys() - named.keys()
                if doomed:
                    self._drop(decision.write, write, number, doomed)

    def _drop(self, name: str, write: _Write, epoch_number: int, attempts: Iterable[str]) -> None:
        epoch = write.epochs[epoch_number]
        for attempt_name in attempts:
            attempt = epoch.attempts.pop(attempt_name)
            del self._attempts[attempt]
            self._batch_count -= len(attempt.offsets)
        assert self._batch_count >= 0, self._batch_count
        if not epoch.attempts:
            del write.epochs[epoch_number]
        self._forget_if_empty(name, write)

    def _forget_if_empty(self, name: str, write: _Write) -> None:
        if write.decision is None and write.deciding is None and not write.epochs:
            self._writes.pop(name, None)


def _no_room(what: str, count_max: int) -> Busy:
    return Busy(
        f"The broker has {count_max} {what} to remember, which is the limit for staged {what}: "
        "commit or abort some, stage larger batches, and say of the last commit under a name "
        "that it is the last."
    )


def _is_decided(write: _Write, epoch_number: int) -> bool:
    return write.decision is not None and epoch_number <= write.decision.epoch


def _check_named(name: str, epoch_number: int, attempts: Sequence[NamedAttempt]) -> None:
    if len(attempts) > ATTEMPTS_PER_COMMIT_MAX:
        raise InvalidRequest(
            f"The commit of epoch {epoch_number} of {name!r} names {len(attempts)} attempts: "
            f"{ATTEMPTS_PER_COMMIT_MAX} is the limit; let fewer tasks write more each."
        )
    if len(dict(attempts)) < len(attempts):  # by name
        raise InvalidRequest(
            f"The commit of epoch {epoch_number} of {name!r} names an attempt twice."
        )
    for named in attempts:
        check_attempt(named.attempt)


def _find_staged(
    name: str, epoch_number: int, epoch: _Epoch | None, named: NamedAttempt
) -> tuple[array[int], array[int]]:
    """The offsets and the record counts of the batches that a commit names."""
    attempt = None if epoch is None else epoch.attempts.get(named.attempt)
    found = 0 if attempt is None else len(attempt.offsets)
    if named.batches != found:
        raise StagedBatchesMissing(
            f"Attempt {named.attempt} of epoch {epoch_number} of {name!r} has {found} batches "
            f"staged, and {named.batches} are to be committed: it was dropped, or not flushed, and "
            "nothing is committed; run the epoch again."
        )
    if attempt is None:
        return array("q"), array("q")
    return attempt.offsets, attempt.records
