"""A replica as its peers see it: messages, time, claims, changes of who has a copy.

What the partition asks of it is in `replication.replica.replica`. The invariant: before anything of
this reaches Raft, Raft knows all that the replica did while it was alone, and afterwards a turn
follows.
"""

from __future__ import annotations

from penstock.raft.following import Following
from penstock.raft.leadership import Leadership
from penstock.raft.membership import Membership, MembershipAt, Node
from penstock.raft.messages import Message
from penstock.raft.state import SavedState
from penstock.replication.parcels.parcel import Claim
from penstock.replication.replica.replica import Replica


class Participant:
    """One replica's. All calls come from the event loop."""

    __slots__ = ("_consensus", "replica")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self._consensus = replica.consensus

    @property
    def term(self) -> int:
        return self._consensus.raft.state.term

    @property
    def commit_offset(self) -> int:
        return self._consensus.raft.state.commit_offset

    @property
    def leader(self) -> Node | None:
        """Who leads, as far as is known here."""
        return self._consensus.raft.leader

    @property
    def followers(self) -> tuple[Node, ...]:
        """Whom it leads."""
        leading = self._consensus.raft.leading
        return () if leading is None else tuple(leading.followers)

    @property
    def membership(self) -> Membership:
        """Who has a copy, as far as is known here; it need not be committed."""
        return self._consensus.raft.state.membership

    @property
    def claim(self) -> Claim | None:
        return self._consensus.claim

    @property
    def is_busy(self) -> bool:
        """Whether it waits for the disk; then it is to be looked after now and then."""
        return self.replica.failure is None and self._consensus.is_busy

    def deadline_ms(self, now_ms: int) -> int | None:
        """When `on_time` must be called; None if it need not be."""
        if self.replica.failure is not None or self.replica.is_alone:
            return None
        return self._consensus.deadline_ms(now_ms)

    def receive(self, sender: Node, message: Message, payload: memoryview) -> None:
        """The payload is not needed after the turn."""
        if self.replica.meet():
            self._consensus.receive(sender, message, payload)
            self.replica.end_turn_later()

    def on_time(self, now_ms: int) -> None:
        if self.replica.meet() and not self._consensus.rest(now_ms):
            self._consensus.on_time(now_ms)
            self.replica.end_turn_later()

    def hear(self, node: Node, heard_ms: int) -> None:
        """The node was last heard of then; if it leads this partition, it said that it does."""
        raft = self._consensus.raft
        part = raft.part
        if isinstance(part, Leadership):
            progress = part.followers.get(node)
            is_news = progress is not None and progress.heard_ms < heard_ms
        else:
            is_news = isinstance(part, Following) and part.heard_ms < heard_ms
        if is_news:
            raft.hear(node, heard_ms)

    def suspect(self, node: Node, now_ms: int) -> None:
        """The node seems to be gone, not only silent."""
        self._consensus.raft.suspect(node, now_ms)

    def follow(self, sender: Node, told: Claim) -> None:
        """The sender says that it leads."""
        if self.replica.meet():
            self._consensus.follow_claim(sender, told.term, told.commit_offset)
            self._follow_start(told.start_offset)
            self.replica.end_turn_later()

    def _follow_start(self, start_offset: int) -> None:
        """The leader's records before the offset were deleted: here they go too, when they are
        known to be committed."""
        replica = self.replica
        offset = min(start_offset, replica.high_watermark)
        if offset > replica.log.start_offset and self.leader != self._consensus.raft.state.me:
            replica.deletions.delete_before(offset, lambda _: None)

    def forget_follower(self, node: Node, now_ms: int) -> None:
        """The node was restarted. With durability "os" it may have less than it had."""
        leading = self._consensus.raft.leading
        if leading is not None and node in leading.followers:
            leading.restarted(node, now_ms)
            self.replica.end_turn_later()

    def change_membership(self, membership: Membership) -> bool:
        """Let these have a copy from now on; whether that may be changed so now. It holds when it
        is committed, which the membership that Raft knows does not say."""
        return self.replica.meet() and self._consensus.change(membership)

    def transfer(self, node: Node) -> bool:
        """Let a voter lead instead, as soon as it has everything; whether that can be tried."""
        return self.replica.meet() and self._consensus.transfer(node)

    @property
    def is_handing_over(self) -> bool:
        """Whether another is being let to lead."""
        leading = self._consensus.raft.leading
        return leading is not None and leading.transfer_to is not None

    def learned(self, now_ms: int) -> frozenset[Node]:
        """The learners that have everything, or had it a moment ago."""
        return self._consensus.in_sync.learned(now_ms)

    @property
    def matches(self) -> dict[Node, int]:
        """Up to where the followers' logs are known to be this one, if it leads."""
        leading = self._consensus.raft.leading
        followers = {} if leading is None else leading.followers
        return {node: progress.match_offset for node, progress in followers.items()}

    def memory(self, told: Claim) -> SavedState | None:
        """What this copy must not forget if it is let go, because its leader says that it is none
        any more; None if that does not follow.

        It does if the leader says it of everything that this copy knows: in no earlier term, and
        after the last membership in the log here, which may be one that let it in again."""
        state = self._consensus.raft.state
        is_out = told.is_settled and state.me not in told.membership.nodes
        is_latest = told.term >= state.term and told.commit_offset > state.members.latest.offset
        if not (is_out and is_latest):
            return None
        return SavedState(
            term=told.term,
            vote=state.vote if told.term == state.term else None,
            terms=(),
            memberships=(MembershipAt(-1, told.term, told.membership),),
            rejoin_offset=told.commit_offset,
        )

    @property
    def in_sync(self) -> frozenset[Node]:
        """The voters that have everything, or had it lately; none if another leads."""
        return self.replica.in_sync
