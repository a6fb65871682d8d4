"""The ready loop of one replica: what Raft decides is done, in the order that Raft asks for.

Cut the log; save the state; only then write, send and report what is durable. A save runs beside
the loop, and while it does everything else waits: messages in a bounded inbox with copies of their
batches, proposals as copies in the log's staging. Not the flushing, not who waits for what: that is
the replica's. The invariant: no byte is written and no message leaves before the state that it
follows from is durable.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace
from typing import Final, assert_never

from penstock.model.errors import BatchError, CorruptLog, DiskFull
from penstock.model.ids import PartitionId
from penstock.model.limits import MESSAGES_WAITING_MAX, RESET_PAYLOAD_BYTES_MAX
from penstock.raft.campaign import Campaign
from penstock.raft.core import Raft
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import (
    AppendAnswer,
    AppendRequest,
    CampaignRequest,
    Message,
    ResetRequest,
    VoteAnswer,
    VoteRequest,
)
from penstock.raft.terms import TermHistory
from penstock.replication.parcels.parcel import Claim
from penstock.replication.replica.control import first_of_term, membership_batch
from penstock.replication.replica.copying import split
from penstock.replication.replica.in_sync import InSync
from penstock.replication.replica.saved_state import Keeper, SaveJob, read_saved, unsaved
from penstock.replication.replica.sender import Sender
from penstock.replication.replica.transport import Surroundings
from penstock.replication.replica.writing import Owner, Writing
from penstock.storage.files.files import Directory
from penstock.storage.log.log import Log

logger = logging.getLogger(__name__)

# Whoever is to lead a new partition asks the others again so soon: they may not have heard of it.
_FIRST_CAMPAIGN_RETRY_MS: Final = 60


def recovered(
    log: Log,
    directory: Directory,
    initial: Membership,
    around: Surroundings,
    *,
    first_term: int,
    may_lack: bool,
) -> tuple[Raft, Keeper]:
    """The consensus as a restart finds it. StorageError.

    may_lack: the log may lack some of what this copy called durable."""
    kept = saved = read_saved(directory, around.me, initial)
    if saved.term < first_term and log.next_offset == 0:
        # Nothing was ever written down. It is with the first election; and where there is none,
        # since a lone voter's log can outlive what the registry knows of it.
        saved = unsaved(around.me, initial, first_term)
        kept = kept if initial.voters == {around.me} else saved
    members = saved.memberships[-1].membership
    if may_lack and members.voters == {around.me} != members.nodes:
        # Learners may have what is lost here, and must not take what is written instead for it.
        saved = replace(saved, term=saved.term + 1, vote=around.me)
    if log.first_offset < saved.reset_offset:
        log.cutter.reset(saved.reset_offset)
    terms = TermHistory.found(saved.terms, log.first_offset, log.next_offset)
    if terms.start_offset > log.first_offset:
        # A crash brought back segments from before what is known of the terms.
        log.chain.start_offset = max(log.start_offset, terms.start_offset)
    raft = Raft(
        around.me,
        saved,
        terms,
        timing=around.timing,
        draw_delay_ms=around.draw_delay_ms,
        now_ms=around.monotonic_ms(),
    )
    raft.state.is_unsaved |= saved != kept
    # What was deleted on request was committed: retention may take it before Raft knows more. A
    # segment ends where a batch does, and what is committed must not end elsewhere.
    ends = (segment.next_offset for segment in log.sealed_segments())
    raft.state.commit(max((end for end in ends if end <= log.start_offset), default=0))
    return raft, Keeper(directory, kept)


class Consensus:
    """One replica's. All calls come from the event loop."""

    def __init__(
        self,
        owner: Owner,
        partition: PartitionId,
        log: Log,
        directory: Directory,
        initial: Membership,
        around: Surroundings,
        *,
        first_term: int,
        may_lack: bool,
        campaigns_at_once: bool,
    ) -> None:
        self.raft, self._keeper = recovered(
            log, directory, initial, around, first_term=first_term, may_lack=may_lack
        )
        self._first_term = first_term
        self._owner = owner
        self._log = log
        self._partition = partition
        self._around = around
        self._inbox: deque[tuple[Node, Message, bytes]] = deque()
        self._saving: SaveJob | None = None
        # The disk had no room for the state: it is to be saved when there is.
        self._is_stuck = False
        self._writing = Writing(owner, self.raft, log, around, self._job_over)
        self._sender = Sender(self.raft, log, partition, around, lambda: owner.snapshot())
        self.in_sync = InSync(self.raft, around)
        # Where the log began when the others were last told.
        self._told_start_offset = -1
        # Until then it goes on campaigning at once, though nobody may have answered.
        self._hurries_until_ms = 0
        if campaigns_at_once and self._is_new:
            now_ms = self.raft.deadline_ms = around.monotonic_ms()
            self._hurries_until_ms = now_ms + 2 * around.timing.election_ms

    @property
    def has_job(self) -> bool:
        """Whether something of it is under way on the disk."""
        return self._saving is not None or self._log.cutter.is_changing

    @property
    def claim(self) -> Claim | None:
        """What there is to tell the others, if this replica leads."""
        state = self.raft.state
        if self.raft.leading is None or self._log.failed:
            return None
        latest = state.members.latest
        return Claim(
            state.term,
            state.commit_offset,
            self._log.start_offset,
            latest.membership,
            latest.offset < state.commit_offset,
            self.in_sync.nodes,
        )

    @property
    def _is_new(self) -> bool:
        """Whether nobody can have led yet, as far as is known here."""
        state = self.raft.state
        return state.term <= self._first_term and state.terms.end_offset == 0

    @property
    def is_busy(self) -> bool:
        """Whether everything has to wait until something is on the disk."""
        return self._saving is not None or self._is_stuck or self._writing.is_changing

    def deadline_ms(self, now_ms: int) -> int:
        """When `on_time` must be called."""
        retry_ms = self._around.timing.retry_ms
        if self.is_busy:
            return now_ms + retry_ms
        deadline_ms = self.raft.deadline_ms
        leading = self.raft.leading
        if leading is not None:
            if leading.is_noop_due:
                deadline_ms = min(deadline_ms, self._writing.retry_ms)
            for progress in leading.followers.values():
                if progress.is_waiting:
                    deadline_ms = min(deadline_ms, progress.asked_ms + retry_ms)
            if self._sender.held_until_ms is not None:
                deadline_ms = min(deadline_ms, self._sender.held_until_ms)
        return deadline_ms

    # --- what comes from outside -----------------------------------------------------------------

    def receive(self, sender: Node, message: Message, payload: memoryview) -> None:
        """Take in a message; `turn` must follow. The payload is not needed after the turn."""
        if not self.is_busy and not self._inbox:
            self._handle(sender, message, payload)
        elif len(self._inbox) < MESSAGES_WAITING_MAX:
            self._inbox.append((sender, message, bytes(payload)))

    def on_time(self, now_ms: int) -> None:
        """`turn` must follow."""
        if not self.is_busy:
            self._writing.finish_proposals()
            self.raft.on_time(now_ms)
            is_hurrying = now_ms < self._hurries_until_ms and self._is_new
            if is_hurrying and isinstance(self.raft.part, Campaign):
                retry_ms = now_ms + _FIRST_CAMPAIGN_RETRY_MS
                self.raft.deadline_ms = min(self.raft.deadline_ms, retry_ms)
            self._owner.on_part()

    def rest(self, now_ms: int) -> bool:
        """Whether nothing but time has passed for a leader, which then goes on without a turn: with
        a thousand partitions that nobody writes to, those turns were most of what a broker did."""
        leading, state = self.raft.leading, self.raft.state
        end_offset = self._log.next_offset
        if (
            leading is None
            or self.is_busy
            or self._inbox
            or leading.transfer_to is not None
            or leading.is_noop_due
            or not end_offset == state.terms.end_offset == state.durable_offset
            or state.commit_offset != end_offset
            or self._log.start_offset != self._told_start_offset
            or any(
                progress.is_waiting or progress.match_offset != end_offset
                for progress in leading.followers.values()
            )
        ):
            return False
        self.raft.on_time(now_ms)
        in_sync = self.in_sync.nodes
        self.in_sync.look(now_ms)
        return self.raft.leading is leading and self.in_sync.nodes is in_sync

    def catch_up(self) -> None:
        """Take in what happened while nobody asked: all of it in the term that this node leads."""
        if self._log.written_offset > self.raft.state.terms.end_offset:
            self.raft.extended(self._log.written_offset)
        if self._owner.durable_offset > self.raft.state.durable_offset:
            # It is committed, and must be known to be before others have a say in that.
            self.raft.durable(self._owner.durable_offset, self._around.monotonic_ms())
        self._follow_start()

    def follow_claim(self, sender: Node, term: int, commit_offset: int) -> None:
        """The sender says that it leads, and how far all is committed. `turn` must follow. What
        comes while the replica is busy is left alone: it is told again."""
        if self.is_busy or self._inbox:
            return
        self._writing.finish_proposals()
        try:
            self.raft.follow_commit(sender, term, commit_offset, self._around.monotonic_ms())
        except CorruptLog as error:
            logger.error("%s: a claim of %s is refused: %s", self._log.name, sender, error)
        self._owner.on_part()

    def change(self, membership: Membership) -> bool:
        """Write who has a copy from now on; whether that may be changed so now."""
        leading = self.raft.leading
        if leading is None or self._log.failed or self.is_busy:
            return False
        if not leading.may_change(membership):
            return False
        self._writing.finish_proposals()
        self._writing.append_own(
            membership_batch(membership, self._around.clock.now_ms()), membership
        )
        self.turn()
        return True

    def transfer(self, node: Node) -> bool:
        """Let a voter lead instead; whether that can be tried."""
        if self.is_busy:
            return False
        self._writing.finish_proposals()
        is_tried = self.raft.transfer(node, self._around.monotonic_ms())
        self.turn()
        return is_tried

    def give_way(self) -> None:
        """Ask whoever of those in sync has most to lead instead, since the disk here does not take
        what a leader writes. Until another leads, nothing changes here."""
        leading = self.raft.leading
        if leading is None:
            return
        followers = leading.followers
        nodes = [node for node in self.in_sync.nodes if node in followers]
        if nodes:
            successor = max(nodes, key=lambda node: followers[node].match_offset)
            logger.warning("%s is to be led by %s", self._log.name, successor)
            request = CampaignRequest(term=self.raft.state.term)
            self._around.peers.send(successor, self._partition, request, b"")

    # --- the loop --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Do all that can be done now. Called at the end of a turn, and when a job is over."""
        if self._owner.has_left:
            return
        while self._settle() and self._inbox:
            sender, message, payload = self._inbox.popleft()
            self._handle(sender, message, memoryview(payload))
        if not self._owner.is_alone and not self._log.failed:
            deadline_ms = self.deadline_ms(self._around.monotonic_ms())
            self._around.peers.schedule(self._partition, deadline_ms)

    def _settle(self) -> bool:
        """Whether nothing has to be waited for."""
        now_ms = self._around.monotonic_ms()
        raft, state, log = self.raft, self.raft.state, self._log
        if log.failed or log.cutter.is_changing:
            return False
        self._follow_start()
        while True:
            if self._is_first_of_term_due(now_ms):
                self._writing.append_own(first_of_term(self._around.clock.now_ms()), None)
            if not self._save_if_due(now_ms):
                self._writing.own()
                return False
            if not self._writing.begin_anew():
                return False
            if not self._writing.write():
                return False
            # What could not be written must be taken back from what is saved.
            if not self._keeper.is_due(raft):
                break
        durable_offset = self._owner.durable_offset
        assert durable_offset <= log.written_offset, (durable_offset, log.written_offset)
        if durable_offset > state.durable_offset:
            raft.durable(durable_offset, now_ms)
        self._sender.send(now_ms)
        self.in_sync.look(now_ms)
        self._told_start_offset = log.start_offset
        self._owner.on_progress()
        return True

    def _follow_start(self) -> None:
        """Retention may have taken the beginning of the log, which is committed and durable."""
        state, offset = self.raft.state, self._log.first_offset
        if state.terms.start_offset < offset <= min(state.commit_offset, state.durable_offset):
            state.dropped_before(offset)

    def _save_if_due(self, now_ms: int) -> bool:
        """Whether the state is saved."""
        if self._saving is not None:
            return False
        if not self._keeper.is_due(self.raft):
            return True
        if not self._is_stuck or now_ms >= self._writing.retry_ms:
            self._is_stuck = False
            self._saving = self._keeper.job(self.raft)
            self._around.flusher.submit(self._saving, self._saved)
        return False

    def _saved(self) -> None:
        job, self._saving = self._saving, None
        assert job is not None
        if job.error is None:
            self._keeper.on_saved(job)
            self._around.disk.taken(self._around.monotonic_ms())
            self.raft.saved(self._around.monotonic_ms())
        elif isinstance(job.error, DiskFull):
            # Nobody was told anything, so it may be tried again.
            self._around.disk.refused(job.error, self._around.monotonic_ms())
            self.raft.state.is_unsaved = True
            if self.raft.leading is not None:
                self._writing.take_back_own(job.error)
            self._is_stuck = self._keeper.is_due(self.raft)
            self._writing.try_later()
        else:
            self._owner.fail(job.error)
        self._job_over()

    def _job_over(self) -> None:
        self.turn()
        self._around.driver.end_turn()
        self._owner.idleness.tell()

    def _is_first_of_term_due(self, now_ms: int) -> bool:
        leading = self.raft.leading
        is_due = leading is not None and leading.is_noop_due
        return is_due and not self.is_busy and now_ms >= self._writing.retry_ms

    # --- messages --------------------------------------------------------------------------------

    def _handle(self, sender: Node, message: Message, payload: memoryview) -> None:
        """What comes from outside may be anything: what no peer would say is left alone."""
        self._writing.finish_proposals()
        try:
            self._dispatch(sender, message, payload)
        except (BatchError, CorruptLog) as error:
            logger.error("%s: a message from %s is refused: %s", self._log.name, sender, error)
        self._owner.on_part()

    def _dispatch(self, sender: Node, message: Message, payload: memoryview) -> None:
        raft, now_ms = self.raft, self._around.monotonic_ms()
        match message:
            case AppendRequest():
                self._on_append(sender, message, payload, now_ms)
            case AppendAnswer():
                raft.on_append_answer(sender, message, now_ms)
            case ResetRequest():
                self._on_reset(sender, message, payload, now_ms)
            case VoteRequest():
                raft.on_vote_request(sender, message, now_ms)
            case VoteAnswer():
                raft.on_vote_answer(sender, message, now_ms)
            case CampaignRequest():
                raft.on_campaign_request(sender, message, now_ms)
            case _:
                assert_never(message)

    def _on_reset(
        self, sender: Node, request: ResetRequest, payload: memoryview, now_ms: int
    ) -> None:
        if len(payload) > RESET_PAYLOAD_BYTES_MAX:
            raise CorruptLog(f"{len(payload)} bytes came with a new start, which is too much.")
        # Not in the middle of something else: the leader asks again.
        is_free = not self._writing.is_receiving
        if is_free and self.raft.on_reset_request(sender, request, now_ms):
            self._keeper.begin_anew(request.start_offset, bytes(payload))
            self._writing.reset(request.start_offset)

    def _on_append(
        self, sender: Node, request: AppendRequest, payload: memoryview, now_ms: int
    ) -> None:
        received, places = split(payload, request.previous_offset)
        request = replace(request, batches=places)
        plan = self.raft.plan_append(sender, request, now_ms)
        if plan is None:
            return
        if plan.truncate_to is not None:
            if self._writing.cut(plan.truncate_to):
                # When that is done, what the request asks for is planned again.
                self._inbox.appendleft((sender, request, bytes(payload)))
            return
        self.raft.written(plan.batches, now_ms)
        self._writing.receive(request, received[plan.first :])
