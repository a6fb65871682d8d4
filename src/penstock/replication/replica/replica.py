"""This broker's copy of a partition: batches are proposed, become durable, become committed.

It owns the log and the high watermark, and says who hears when. Where it is the only copy, a batch
is committed as soon as it is as durable here as the topic asks, and Raft is told only when somebody
asks it: so being alone costs nothing. Where there are others, Raft decides (`consensus`). Not the
checks of what may be proposed: those are the partition's.

The invariant: `done` of a proposal is called exactly once, without an error only when the batch is
as durable as was asked, and in the order of the proposals; the high watermark never goes back, and
nothing beyond it is ever read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.model.errors import (
    DiskFull,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    OffsetOutOfRange,
    PenstockError,
    ShuttingDown,
    StorageError,
    StorageFailed,
)
from penstock.model.ids import PartitionId
from penstock.model.topic_config import Durability
from penstock.raft.membership import Membership, Node
from penstock.records.header import BatchHeader
from penstock.replication.disk.deletions import Deletions
from penstock.replication.disk.flushing import Flushing
from penstock.replication.disk.idleness import Idleness
from penstock.replication.disk.patience import Patience
from penstock.replication.disk.waiting import ACKS_ALL, Done, Waiting
from penstock.replication.replica.consensus import Consensus
from penstock.replication.replica.in_sync import NOBODY
from penstock.replication.replica.transport import Surroundings
from penstock.storage.files.files import Directory
from penstock.storage.log.log import Log
from penstock.storage.segments.recovery import CleanEnd
from penstock.storage.segments.slice import FileSlice

__all__ = ["ACKS_ALL", "Done", "Listener", "Replica"]

logger = logging.getLogger(__name__)


class Listener(Protocol):
    """Who hears of a replica's progress: the partition in front of it."""

    def on_written(self, error: StorageError | None) -> None:
        """What was proposed in this turn is in the file, or none of it is."""
        ...

    def on_replicated(self, headers: Sequence[BatchHeader]) -> None:
        """These batches of another leader are in the file."""
        ...

    def on_truncated(self, offset: int) -> None:
        """The log ends there, and what was known of later batches is void."""
        ...

    def on_high_watermark(self) -> None:
        """There is more to read."""
        ...

    def on_leadership(self, is_leader: bool) -> None:
        """This replica leads, and knows all that is committed; or it does so no longer."""
        ...


class Replica:
    """All calls come from the event loop."""

    def __init__(
        self,
        name: str,
        partition: PartitionId,
        log: Log,
        directory: Directory,
        *,
        initial: Membership,
        first_term: int = 0,
        durability: Durability,
        around: Surroundings,
        min_insync_replicas: int = 1,
        may_lack: bool = False,
        campaigns_at_once: bool = False,
    ) -> None:
        """initial: who had a copy when the partition was made, and first_term: which term it began
        with. may_lack: the log may lack some of what this copy called durable: it was not flushed,
        and a crash came. campaigns_at_once: if the partition is new, this copy is to lead it.
        StorageError."""
        self.name = name
        self.partition = partition
        self.log = log
        self.durability = durability
        self.min_insync_replicas = min_insync_replicas
        self.failure: StorageError | None = None
        self.listener: Listener | None = None
        # What a copy that begins anew must know of what came before; None if it cannot be told now.
        self.snapshot: Callable[[], bytes | None] = bytes
        self.is_leader = False
        # Of the voters, those who have everything or had it lately; nobody where another leads.
        self.in_sync: frozenset[Node] = NOBODY
        self.in_sync_count = 0
        # Whether there is nobody else: then Raft is told of nothing until somebody comes.
        self.is_alone = False
        self.idleness = Idleness(self._is_idle)
        self.flushing = Flushing(
            log,
            around.flusher,
            includes_active=durability == "fsync",
            on_durable=self._on_durable,
            on_failed=self.fail,
            on_over=self._on_flush_over,
        )
        self.consensus = Consensus(
            self,
            partition,
            log,
            directory,
            initial,
            around,
            first_term=first_term,
            may_lack=may_lack,
            campaigns_at_once=campaigns_at_once,
        )
        # All that was found is durable; what of it is committed is Raft's to say.
        self.durable_offset = log.next_offset
        self.high_watermark = log.start_offset
        self._around = around
        self._driver = around.driver
        self._clock = around.clock
        self._dirty = False
        # Whether it takes proposals: it leads, and is not handing that over.
        self.accepts = False
        # As of the last turn.
        self.term = -1
        self._patience = Patience()
        # Whether all that follows concerns nobody any more.
        self.has_left = False
        self._waiting = Waiting()
        self._by_acks = self._waiting.by_acks
        self._by_commit = self._waiting.by_commit
        self.deletions = Deletions(log, around.flusher, around.clock, self.idleness.tell)

    def start(self) -> None:
        """Take part from now on. A lone voter leads when this returns, unless its state must be
        saved first."""
        self.consensus.on_time(self._around.monotonic_ms())
        self.consensus.turn()

    # --- what the partition asks for -------------------------------------------------------------

    def propose(
        self, header: BatchHeader, batch: memoryview, done: Done | None, acks: int = ACKS_ALL
    ) -> int:
        """Append a batch; `done` is called when it is as safe as `acks` says or has failed. Returns
        the offset of its first record, which holds only if `done` brings no error. The bytes of
        `batch` are stamped in place and needed until the turn ends."""
        if not self.accepts:
            raise refusal(self)
        writer = self.log.writer
        base_offset = writer.stage(header, batch, self.term)
        if done is not None:
            self._by_acks[acks].append((writer.next_offset, done))
        if not self._dirty:
            self._dirty = True
            self._driver.mark_dirty(self)
        return base_offset

    def when_committed(self, end_offset: int, done: Done) -> None:
        """Call `done` when everything before `end_offset`, proposed earlier, is committed."""
        if end_offset <= self._acknowledged_offset():
            done(None)
        elif self.failure is not None or not self.is_leader:
            done(refusal(self))
        else:
            self._by_commit.append((end_offset, done))

    def read(self, offset: int, max_bytes: int) -> FileSlice:
        return self.log.read(offset, max_bytes, self.high_watermark)

    def delete_before(self, offset: int, done: Done) -> None:
        """Let the records before the offset be gone; `done` is called when that is durable, or has
        failed. At most everything committed can go; what is gone already is no error."""
        if self.failure is not None:
            raise refusal(self)
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(
                f"Records before offset {offset} cannot be deleted: the partition has "
                f"{self.log.start_offset} to {self.high_watermark}; name one of these."
            )
        if offset <= self.log.start_offset:
            done(None)
        else:
            self.deletions.delete_before(offset, done)

    def write_proposed(self) -> None:
        """Called by the driver at the end of the turn."""
        self._dirty = False
        if self.has_left:
            return
        try:
            if not self.is_alone:
                self.consensus.turn()
                return
            self.log.writer.write_staged(self._clock.now_ms())
        except StorageError as error:
            if not self.log.failed:
                self._around.disk.refused(error, self._around.monotonic_ms())
            self.on_written(error)
            return
        except Exception as error:
            # A bug of ours: whoever waits must hear of it, and nobody knows what is in the file.
            logger.exception("Writing to %s failed in a way nobody foresaw", self.name)
            self.fail(StorageFailed(f"The broker failed to write: {error!r}."))
            return
        if self._around.disk.refusals:
            self._around.disk.taken(self._around.monotonic_ms())
        if self.listener is not None:
            self.listener.on_written(None)
        if self.durability == "os":
            self._advance(self.log.written_offset)
        self.flushing.start()

    def set_durability(self, durability: Durability) -> None:
        """Let it hold from now on, also for what waits: less may be enough for that now."""
        self.durability = durability
        self.flushing.includes_active = durability == "fsync"
        if self.failure is None:
            if durability == "os":
                self._on_durable(self.log.written_offset)
            self.flushing.start()

    def roll(self) -> None:
        """Begin a new segment, so that retention can take the old one."""
        if self._dirty:
            self.write_proposed()
        # What waits for a state to be saved goes to the old one; another time.
        if self.log.next_offset == self.log.written_offset:
            self.log.writer.roll()
            self.flushing.start()

    def leave(self, reason: PenstockError) -> None:
        """Take no part any more: the partition is deleted, or its copies are elsewhere. Whoever
        waits is told the reason at once. What the disk has under way comes to its end, and tells
        nobody anything."""
        self.has_left = True
        self.accepts = False
        self.deletions.leave(reason)
        self._waiting.fail_after(-1, reason)
        if self.is_leader:
            self._lose_leadership()

    def close(self) -> CleanEnd | None:
        """Make everything durable and let the files go; as they are, and for None, when it has left
        or the log had failed."""
        assert self._is_idle(), "closed while a job was running"
        if self.has_left:
            self.log.discard()
            return None
        if self.log.next_offset > self.log.written_offset:
            # It waits for a state that the disk has no room for.
            self.log.writer.unstage()
            self.on_written(StorageFailed(f"{self.name} was closed before it could be written."))
        clean_end = self.log.close()
        if clean_end is not None and self.is_alone:
            self._advance(clean_end.next_offset)
        self._waiting.fail_after(-1, ShuttingDown())
        return clean_end

    # --- others ----------------------------------------------------------------------------------

    def meet(self) -> bool:
        """Somebody else has something to say, or is to be told: Raft must know all that happened
        while there was nobody. Whether this replica is to be talked to."""
        if self.is_alone:
            self.is_alone = False
            self.durable_offset = self.high_watermark
            self._waiting.share(is_alone=False)
            self._by_acks = self._waiting.by_acks
            self.consensus.catch_up()
        return self.failure is None

    def end_turn_later(self) -> None:
        """Let what was said be followed by a turn, as what is proposed is."""
        if not self._dirty:
            self._dirty = True
            self._driver.mark_dirty(self)

    # --- replication.consensus.Owner -------------------------------------------------------------

    def on_written(self, error: StorageError | None) -> None:
        if self.listener is not None:
            self.listener.on_written(error)
        if error is None:
            self._patience.on_taken()
            if self.durability == "os":
                self.durable_offset = self.log.written_offset
        elif self.log.failed:
            self.fail(error)
        else:
            if isinstance(error, DiskFull):
                broker = self._around.me.broker
                error = DiskFull(f"Broker {broker} has no room for {self.name}: {error}")
            # The offsets of what is not in the file go to the next ones.
            self._waiting.fail_after(self.log.next_offset, error)
            if self._patience.is_over(self._around.monotonic_ms()):
                self.consensus.give_way()

    def on_copied(self, headers: Sequence[BatchHeader]) -> None:
        if self.durability == "os":
            self.durable_offset = self.log.written_offset
        if self.listener is not None:
            self.listener.on_replicated(headers)

    def on_cut(self, offset: int) -> None:
        # A log that began anew has nothing that is not durable.
        is_anew = offset == self.log.first_offset
        self.durable_offset = offset if is_anew else min(self.durable_offset, offset)
        # Where it begins says nothing of what was waited for before.
        self._waiting.fail_after(-1 if is_anew else offset, refusal(self))
        if self.listener is not None:
            self.listener.on_truncated(offset)

    def on_part(self) -> None:
        raft = self.consensus.raft
        if self.is_leader and (raft.leading is None or self.term != raft.state.term):
            self._lose_leadership()

    def _lose_leadership(self) -> None:
        self.is_leader = self.accepts = False
        self._waiting.fail_after(-1, refusal(self))
        if self.listener is not None:
            self.listener.on_leadership(False)

    def on_progress(self) -> None:
        raft = self.consensus.raft
        leading, state = raft.leading, raft.state
        # Until a record of its term is committed, a leader does not know what is (paper, 8).
        is_leader = (
            leading is not None and state.terms.term_before(state.commit_offset) == state.term
        )
        if self.is_leader and not (is_leader and self.term == state.term):
            # First, or the commit of another's batch could pass for that of one proposed here.
            self._lose_leadership()
        self.term = state.term
        committed_offset = min(state.commit_offset, self.log.written_offset)
        has_more = committed_offset > self.high_watermark
        self.high_watermark = max(self.high_watermark, committed_offset)
        assert self.high_watermark <= self.log.written_offset, (self.name, self.high_watermark)
        self._waiting.durable(self.durable_offset)
        self._waiting.committed(self._acknowledged_offset())
        nodes = self.consensus.in_sync.nodes
        if nodes is not self.in_sync:
            self.in_sync, self.in_sync_count = nodes, len(nodes)
        if self._by_commit and self.in_sync_count < self.min_insync_replicas:
            # It is committed, and stays. But those who are to have it may be gone for good.
            error = _too_few(self.name, self.in_sync_count, self.min_insync_replicas)
            self._waiting.committed(self.high_watermark, error)
        if has_more and self.listener is not None:
            # Behind the answers, so that whoever reads does not hold them up.
            self.listener.on_high_watermark()
        if is_leader and not self.is_leader:
            self.is_leader = True
            if self.listener is not None:
                self.listener.on_leadership(True)
        self.accepts = is_leader and leading is not None and leading.transfer_to is None
        # Raft has to hear of the commit by which the others left, so that it can be told; and to
        # tell when another that was to lead has not come.
        is_served = (
            not self._waiting.by_durable
            and self.min_insync_replicas <= 1
            and state.members.latest.offset < state.commit_offset
        )
        if self.accepts and state.is_alone and not state.membership.learners and is_served:
            self.is_alone = True
            self._waiting.share(is_alone=True)
            self._by_acks = self._waiting.by_acks
        self._around.peers.note(self.partition, self.consensus.claim)
        self.flushing.start()

    def fail(self, error: StorageError) -> None:
        """The disk did not keep what it was given: nothing more is written or said here, since no
        later success could make up for it. What is committed can still be read."""
        if self.failure is not None:
            return
        logger.error("%s is read-only from now on: %s", self.name, error)
        self.failure = error
        self.log.writer.failure = self.log.failure or error.message
        self.accepts = False
        self._waiting.fail_after(-1, refusal(self))
        if not self.is_alone:
            if self.is_leader:
                self._lose_leadership()
            self._around.peers.note(self.partition, None)
            self.consensus.give_way()
        # Those who waited are told of the failure, so it must not come back after a restart: the
        # kernel may still have it in its cache, and would say that it is on the disk. But others
        # may count on what was reported to be durable here.
        kept_offset = self.high_watermark
        if not self.is_alone:
            # What they have committed without this copy it need not have kept.
            kept_offset = max(self.durable_offset, self.consensus.raft.state.durable_offset)

        def abandon() -> None:
            self.log.cutter.abandon(kept_offset)
            self.high_watermark = min(self.high_watermark, self.log.next_offset)

        self.idleness.when(abandon)

    # --- its own ---------------------------------------------------------------------------------

    def _on_durable(self, offset: int) -> None:
        if self.has_left:
            return
        if self.is_alone:
            self._advance(offset)
            self.flushing.start()
        else:
            self.durable_offset = max(self.durable_offset, offset)
            self.consensus.turn()
            self._driver.end_turn()

    def _on_flush_over(self) -> None:
        self.idleness.tell()
        # What there was to say because of it is sent.
        self._driver.end_turn()

    def _advance(self, offset: int) -> None:
        """Alone, nobody else has a say."""
        if offset <= self.high_watermark:
            return
        assert offset <= self.log.written_offset, (offset, self.log.written_offset)
        self.high_watermark = offset
        waiting = self._by_commit
        while waiting and waiting[0][0] <= offset:
            waiting.popleft()[1](None)
        if self.listener is not None:
            self.listener.on_high_watermark()

    def _acknowledged_offset(self) -> int:
        """Everything before it is committed, and where this replica leads, as many have it as the
        topic asks for (R-REP-3): that may be more than a majority."""
        leading = None if self.is_alone else self.consensus.raft.leading
        if leading is None or self.min_insync_replicas <= 1:
            return self.high_watermark
        # A majority of those who voted when it was committed need not be one of these.
        return min(self.high_watermark, leading.replicated_offset(self.min_insync_replicas))

    def _is_idle(self) -> bool:
        has_job = self.consensus.has_job
        return self.deletions.is_idle and not has_job and not self.flushing.is_running


def refusal(replica: Replica) -> PenstockError:
    """Why a replica takes nothing now. Where others vote, one of them is to be asked, also for what
    this one lost: only the disk of the last copy is the end of it."""
    name, failure = replica.name, replica.failure
    if failure is None:
        return NotLeader(f"{name} is not led here now: ask again who leads it.")
    state = replica.consensus.raft.state
    if state.is_alone:
        return StorageFailed(
            f"Broker {state.me.broker} takes nothing more for {name}, of which it has the only "
            f"copy: {failure} When the disk is well, restart the broker; what was acknowledged is "
            "there."
        )
    return NotLeader(f"{name} is not led here any more, its disk failed: ask again who leads it.")


def _too_few(name: str, in_sync: int, minimum: int) -> PenstockError:
    return NotEnoughReplicasAfterAppend(
        f"{name} has it, but {in_sync} of its replicas are in sync and min_insync_replicas is "
        f"{minimum}: try again later."
    )
