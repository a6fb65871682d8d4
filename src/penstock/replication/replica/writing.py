"""A replica's log as Raft has it: written, cut and begun anew, in step with what Raft was told.

Not when: `replication.replica.consensus` calls it in the right moments. The invariant: a write that
fails is taken back from Raft too, so that Raft never tells of what is not in the log or about to
be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.model.errors import CorruptLog, StorageError
from penstock.raft.core import Raft
from penstock.raft.membership import Membership
from penstock.raft.messages import AppendRequest, BatchPlace
from penstock.records.header import BatchHeader, read_header
from penstock.replication.disk.flushing import Flushing
from penstock.replication.disk.idleness import Idleness
from penstock.replication.replica.copying import ReceivedBatch
from penstock.replication.replica.transport import Surroundings
from penstock.storage.log.log import Log


class Owner(Protocol):
    """The replica."""

    durable_offset: int
    """Everything before it is as durable as the topic asks."""
    is_alone: bool
    """Whether there is nobody else: then Raft has nothing to wait for."""
    is_leader: bool
    has_left: bool
    """Whether nobody is to hear of it any more, or to wait for it."""
    term: int
    """In which it leads, or led."""
    flushing: Flushing
    idleness: Idleness

    def snapshot(self) -> bytes | None:
        """What a copy that begins anew must know of the log before its start; None if that cannot
        be told now."""
        ...

    def fail(self, error: StorageError) -> None:
        """The disk cannot be trusted: nothing more is said or written."""
        ...

    def on_written(self, error: StorageError | None) -> None:
        """What was proposed is in the file, or none of what was proposed since is."""
        ...

    def on_copied(self, headers: Sequence[BatchHeader]) -> None:
        """These batches of the leader are in the file."""
        ...

    def on_cut(self, offset: int) -> None:
        """The log ends there from now on, and may go on with something else."""
        ...

    def on_part(self) -> None:
        """This node may lead no longer: what is proposed from now on has no term to be in, though
        the turn is not over and the new term not saved."""
        ...

    def on_progress(self) -> None:
        """A turn is over."""
        ...


class Writing:
    """Of one replica."""

    __slots__ = (
        "_around",
        "_log",
        "_on_changed",
        "_owner",
        "_raft",
        "_received",
        "_reset_to",
        "retry_ms",
    )

    def __init__(
        self,
        owner: Owner,
        raft: Raft,
        log: Log,
        around: Surroundings,
        on_changed: Callable[[], None],
    ) -> None:
        """on_changed: called when the log has been cut or begun anew, or that has failed."""
        self._owner = owner
        self._raft = raft
        self._log = log
        self._around = around
        self._on_changed = on_changed
        # When to try again what the disk had no room for.
        self.retry_ms = 0
        # What is to be done as soon as the state is saved: begin the log anew there, write these.
        self._reset_to: int | None = None
        self._received: list[tuple[AppendRequest, Sequence[ReceivedBatch]]] = []

    @property
    def is_changing(self) -> bool:
        """Whether the log is being cut or is to begin anew: everything else waits."""
        return self._reset_to is not None or self._log.cutter.is_changing

    @property
    def is_receiving(self) -> bool:
        return bool(self._received)

    # --- before the state is saved ---------------------------------------------------------------

    def receive(self, request: AppendRequest, batches: Sequence[ReceivedBatch]) -> None:
        """These follow the log's end, and Raft was told so."""
        self._received.append((request, batches))

    def cut(self, offset: int) -> bool:
        """Whether the log is being cut from now on; the leader sends again what it could not be
        cut for."""
        if self._received or self._owner.flushing.is_running:
            return False
        if offset < self._log.start_offset:
            # Raft may not know that yet after a restart, but no leader has anything else there.
            raise CorruptLog(
                f"The leader has another record at offset {offset}, where everything before "
                f"{self._log.start_offset} was committed, and deleted."
            )
        committed_offset = self._raft.state.commit_offset
        assert offset >= committed_offset, (offset, committed_offset)
        try:
            job = self._log.cutter.truncate_job(offset)
        except StorageError as error:
            self._owner.fail(error)
            return False

        def finish() -> None:
            self._log.cutter.finish_change(job)
            self._raft.state.truncated(offset)
            self._owner.on_cut(offset)

        self._around.flusher.submit(job, lambda: self._changed(finish))
        return True

    def _changed(self, finish: Callable[[], None]) -> None:
        try:
            finish()
        except StorageError as error:
            self._owner.fail(error)
        self._on_changed()

    def reset(self, offset: int) -> None:
        """The log is to begin anew there, and Raft was told so."""
        assert not self._received, self._received
        assert offset == self._raft.state.reset_offset, (offset, self._raft.state.reset_offset)
        self._reset_to = offset

    def append_own(self, batch: bytearray, membership: Membership | None) -> None:
        """Stage a batch of this node's own, which is told before it is written: it is the first of
        its term, or says who has a copy."""
        log, term = self._log, self._raft.state.term
        assert not self._received, "a leader that follows"
        assert log.next_offset == self._raft.state.terms.end_offset, (log.next_offset, self._raft)
        view = memoryview(batch)
        base_offset = log.writer.stage(read_header(view), view, term)
        place = BatchPlace(base_offset, log.next_offset, term, membership)
        self._raft.written([place], self._around.monotonic_ms())

    def take_back_own(self, error: StorageError) -> None:
        """What a leader staged cannot be told of, for want of room on the disk: nor is it written
        then, as if the disk had had no room for that."""
        assert not self._received, "a leader that follows"
        self._log.writer.unstage()
        self._take_back()
        self._owner.on_written(error)

    def own(self) -> None:
        """Copy what waits to be written, since the memory it lies in is about to be used again."""
        self._log.writer.own_staged()
        self._received = [
            (
                request,
                [ReceivedBatch(header, memoryview(bytes(batch))) for header, batch in batches],
            )
            for request, batches in self._received
        ]

    # --- when it is ------------------------------------------------------------------------------

    def begin_anew(self) -> bool:
        """Empty the log, if that is to be; whether nothing is to be waited for."""
        offset = self._reset_to
        if offset is None:
            return not self._log.cutter.is_changing
        if (
            self._owner.flushing.is_running
            or self._log.cutter.is_held
            or self._log.cutter.is_changing
        ):
            return False
        try:
            job = self._log.cutter.reset_job(offset)
        except StorageError as error:
            self._owner.fail(error)
            return False

        def finish() -> None:
            self._reset_to = None
            self._log.cutter.finish_change(job)
            self._owner.on_cut(offset)

        self._around.flusher.submit(job, lambda: self._changed(finish))
        return False

    def write(self) -> bool:
        """Write what is staged and what was received; whether the disk can be trusted."""
        if self._received:
            self._write_received()
        elif self._log.next_offset > self._log.written_offset:
            self._write_staged()
        return not self._log.failed

    def finish_proposals(self) -> None:
        """Write what was proposed in this turn, before something happens that may end the term. A
        leader goes on in its term, so the state that tells of it was saved long ago."""
        if not self._received and self._log.next_offset > self._log.written_offset:
            self._write_staged()

    def _write_staged(self) -> None:
        log, state = self._log, self._raft.state
        try:
            log.writer.write_staged(self._around.clock.now_ms())
        except StorageError as error:
            if state.terms.end_offset > log.written_offset:
                self._take_back()
                self.try_later()
            if not log.failed:
                self._around.disk.refused(error, self._around.monotonic_ms())
            self._owner.on_written(error)
            return
        if self._around.disk.refusals:
            self._around.disk.taken(self._around.monotonic_ms())
        assert log.written_offset >= state.terms.end_offset, (log.written_offset, state.terms)
        if log.written_offset > state.terms.end_offset:
            self._raft.extended(log.written_offset)
        self._owner.on_written(None)

    def _write_received(self) -> None:
        received, self._received = self._received, []
        log = self._log
        headers = []
        try:
            for _, batches in received:
                for header, batch in batches:
                    log.writer.stage_copy(header, batch)
                    headers.append(header)
            log.writer.write_staged(self._around.clock.now_ms())
        except StorageError as error:
            if log.failed:
                self._owner.fail(error)
                return
            # As if it had not come: the leader sends it again.
            self._around.disk.refused(error, self._around.monotonic_ms())
            self._take_back()
            return
        if headers:
            assert log.written_offset == headers[-1].next_offset, (log.written_offset, headers[-1])
            if self._around.disk.refusals:
                self._around.disk.taken(self._around.monotonic_ms())
            self._owner.on_copied(headers)
        for request, _ in received:
            self._raft.matched(request)

    def _take_back(self) -> None:
        """What Raft was told of is not in the log after all."""
        self._raft.state.truncated(self._log.written_offset)
        if self._raft.leading is not None:
            self._raft.leading.follow_membership(self._around.monotonic_ms())

    def try_later(self) -> None:
        self.retry_ms = self._around.monotonic_ms() + self._around.timing.retry_ms
