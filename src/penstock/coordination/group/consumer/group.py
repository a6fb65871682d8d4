"""A consumer group of the next generation protocol (KIP-848): the broker assigns, members follow.

Not the shell's work: ids, clocks and the internal topic are given. Every member heartbeats on its
own; no heartbeat waits for another member. The invariant: a partition is told to a member only
while no other member owns it. A refused request changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace

from penstock.coordination.group.assignors.assignment import (
    NOTHING,
    MemberSubscription,
    are_disjoint,
    partitions_of,
)
from penstock.coordination.group.consumer.identity import check_leaver, check_member, check_stayer
from penstock.coordination.group.consumer.manual import assign, check_manual
from penstock.coordination.group.consumer.members import ConsumerMembers
from penstock.coordination.group.consumer.membership import Membership, check_heartbeat
from penstock.coordination.group.consumer.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    TEMPORARY_LEAVE_EPOCH,
    ConsumerGroupConfig,
    ConsumerGroupDescription,
    ConsumerGroupState,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    ConsumerMemberDescription,
    Topics,
)
from penstock.coordination.group.consumer.reconciliation import Current, MemberState, reconcile
from penstock.coordination.group.consumer.records import (
    Epochs,
    SavedGroup,
    decode,
    encode_current,
    encode_epochs,
    encode_membership,
    encode_target,
    member_tombstones,
)
from penstock.coordination.group.consumer.subscribed_topics import Resolution, SubscribedTopics
from penstock.coordination.group.effects import Effects, Ticket
from penstock.coordination.group.offsets import CommittedOffset
from penstock.coordination.group.sessions import Sessions
from penstock.model.errors import CorruptLog, PartitionLost, PenstockError, StaleMemberEpoch
from penstock.model.ids import TopicId
from penstock.model.limits import MEMBER_LOST_MS_MAX

_logger = logging.getLogger(__name__)


class ConsumerGroup:
    """One group. What it returns is to be done by the shell, as `effects` says."""

    def __init__(self, name: str, config: ConsumerGroupConfig) -> None:
        self.name = name
        self.config = config
        """An operator may give it another."""
        self._members = ConsumerMembers()
        self._epochs = Epochs()
        self._sessions = Sessions()
        self._revocations = Sessions()  # until when those who are to give up partitions may take
        self._subscribed = SubscribedTopics()
        self._resolution: Resolution | None = None
        self._topics_may_have_changed = True

    @classmethod
    def restore(
        cls,
        name: str,
        config: ConsumerGroupConfig,
        records: Iterable[tuple[bytes, bytes]],
        now_ms: int,
    ) -> ConsumerGroup:
        """The group of its last records, whose members all have a whole session before them.
        Raises CorruptLog where they cannot be read."""
        group = cls(name, config)
        saved = decode(records)
        _check_owners(saved)
        group._epochs = saved.epochs
        for member_id, membership in saved.memberships.items():
            group._members.put(member_id, membership)
            group._sessions.set(member_id, now_ms + config.session_timeout_ms)
            if member_id in saved.currents:
                group._put_current(member_id, saved.currents[member_id], now_ms)
        group._members.targets = saved.targets
        if saved.targets.keys() != saved.memberships.keys():
            # A write that was cut off in the middle: the targets are worked out again.
            group._epochs = replace(saved.epochs, topics_digest="")
        return group

    # --- requests ------------------------------------------------------------------------------

    def heartbeat(
        self,
        ticket: Ticket[ConsumerHeartbeatAnswer],
        request: ConsumerHeartbeat,
        topics: Topics,
        now_ms: int,
    ) -> Effects:
        """Answered at once with ConsumerHeartbeatAnswer."""
        effects = Effects()
        try:
            check_heartbeat(request)
            if request.member_epoch == LEAVE_EPOCH:
                answer = self._leave(request, now_ms, effects)
            elif request.member_epoch == TEMPORARY_LEAVE_EPOCH:
                answer = self._leave_for_a_while(request, now_ms, effects)
            else:
                answer = self._stay(request, topics, now_ms, effects)
            effects.answer(ticket, answer)
        except PenstockError as error:
            assert not effects.records, f"refused, and wrote {effects.records}"
            effects.answer(ticket, error)
        return effects

    def check_commit(
        self, member_id: str, member_epoch: int, offsets: Iterable[CommittedOffset] = ()
    ) -> None:
        """Raise the reason why the member may not commit offsets now. offsets: those whose
        partitions it must own, also if it is about to give them up."""
        if member_epoch < 0 and not self._members:
            return  # a consumer that assigns itself, or an operator
        check_member(self._members, member_id)
        epoch = self._members.current(member_id).epoch
        if member_epoch != epoch:
            raise StaleMemberEpoch(
                f"Member {member_id} has epoch {member_epoch}, but the group gave it {epoch}: take "
                "it from the next heartbeat's answer."
            )
        for each in offsets:
            if self._members.owner(TopicId(each.topic_id), each.partition) != member_id:
                raise PartitionLost(
                    f"{each.topic}-{each.partition} is not member {member_id}'s, or no longer: "
                    "only who reads it commits its offset."
                )

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise the reason why the member may not read committed offsets now. Who does not say
        that it is a member may."""
        if member_id is not None or member_epoch >= 0:
            self.check_commit(member_id or "", member_epoch)

    def on_topics_changed(self) -> None:
        """Topics have come, gone or grown: the next heartbeat looks at them again."""
        self._topics_may_have_changed = True

    # --- time ----------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int | None:
        """When to call `expire`: never later than there is something to do, seldom earlier."""
        wakes = (self._sessions.wake_ms, self._revocations.wake_ms)
        return min((at_ms for at_ms in wakes if at_ms is not None), default=None)

    def expire(self, now_ms: int) -> Effects:
        """Remove the members whose time is over."""
        effects = Effects()
        reasons = dict.fromkeys(self._revocations.expire(now_ms), "did not give up its partitions")
        reasons |= dict.fromkeys(self._sessions.expire(now_ms), "was silent for too long")
        for member_id, reason in reasons.items():
            _logger.info("Group %s removes member %s, which %s.", self.name, member_id, reason)
        if reasons:
            self._remove(reasons, now_ms, effects)
        return effects

    def lose(self, member_id: str, now_ms: int) -> None:
        """The member's connection has ended: it has a moment to come back, not a whole session."""
        deadline_ms = now_ms + MEMBER_LOST_MS_MAX
        if member_id in self._members and deadline_ms < self._sessions.deadline_ms(member_id):
            self._sessions.set(member_id, deadline_ms)

    # --- what others see -----------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        epochs, members = self._epochs, self._members
        if not members:
            return ConsumerGroupState.EMPTY
        if epochs.epoch > epochs.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        for member_id in members.memberships:
            if not members.current(member_id).is_reconciled_to(epochs.assignment_epoch):
                return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    def has_member(self, member_id: str) -> bool:
        return member_id in self._members

    @property
    def member_count(self) -> int:
        return len(self._members)

    @property
    def empty_since_ms(self) -> int | None:
        """Since when there are no members; None while there are, or if there never were."""
        return self._epochs.empty_since_ms

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that the members read; None where that is not known yet, because nobody who
        subscribes by a pattern has sent a heartbeat since the restart."""
        topics: set[str] = set()
        for membership in self._members.memberships.values():
            topics |= membership.topic_names
            if membership.topic_pattern is not None:
                if self._resolution is None:
                    return None
                topics |= self._resolution.topics.keys()
        return frozenset(topics)

    def describe(self) -> ConsumerGroupDescription:
        members = self._members
        return ConsumerGroupDescription(
            name=self.name,
            state=self.state,
            epoch=self._epochs.epoch,
            assignment_epoch=self._epochs.assignment_epoch,
            assignor=members.favourite_assignor() or self.config.default_assignor,
            members=tuple(
                ConsumerMemberDescription(
                    member_id=member_id,
                    member_epoch=members.current(member_id).epoch,
                    instance_id=membership.instance_id,
                    rack_id=membership.rack_id,
                    client_id=membership.client_id,
                    client_host=membership.client_host,
                    topic_names=tuple(sorted(membership.topic_names)),
                    topic_pattern=membership.topic_pattern,
                    assigned=members.current(member_id).assigned,
                    target=members.target(member_id),
                )
                for member_id, membership in members.memberships.items()
            ),
        )

    # --- joining and staying -------------------------------------------------------------------

    def _stay(
        self, request: ConsumerHeartbeat, topics: Topics, now_ms: int, effects: Effects
    ) -> ConsumerHeartbeatAnswer:
        member_id = request.member_id or request.new_member_id
        gone = check_stayer(self._members, member_id, request, self.config.members_max)
        known = self._members.memberships.get(gone or member_id)
        membership = (known or Membership()).updated(request)
        has_changed = known is None or not membership.subscribes_like(known)
        resolution = None
        is_due = self._topics_may_have_changed or self._epochs.epoch > self._epochs.assignment_epoch
        if membership is not known or is_due:
            memberships = {**self._members.memberships, member_id: membership}
            if gone is not None:
                del memberships[gone]
            resolution = self._subscribed.resolve(memberships.values(), topics)
            if membership is not known:
                check_manual(member_id, membership, memberships, resolution.topics)
        # Nothing is refused from here on.
        told = self._members.current(member_id).assigned
        if gone is not None:
            self._take_over(gone, member_id, now_ms, effects)
        elif request.member_epoch == JOIN_EPOCH:
            self._come_back(member_id, now_ms)
        if gone is not None or membership is not known:
            self._members.put(member_id, membership)
            effects.record(encode_membership(self.name, member_id, membership))
        if resolution is not None:
            self._assign(resolution, has_changed, effects)
        current = self._reconcile(member_id, request, now_ms, effects)
        self._sessions.set(member_id, now_ms + self.config.session_timeout_ms)
        return ConsumerHeartbeatAnswer(
            member_id=member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=self.config.heartbeat_interval_ms,
            assignment=(
                current.assigned if _is_full(request) or current.assigned != told else None
            ),
            is_settled=current.is_reconciled_to(self._epochs.assignment_epoch),
            member_count=len(self._members),
        )

    def _take_over(self, gone: str, member_id: str, now_ms: int, effects: Effects) -> None:
        """A static member is back under another id, and gets what was kept for it."""
        members = self._members
        target, current = members.target(gone), members.current(gone)
        membership = members.remove(gone)
        self._sessions.cancel(gone)
        effects.records.extend(member_tombstones(self.name, gone))
        members.put(member_id, membership)
        members.targets[member_id] = target
        effects.record(encode_target(self.name, member_id, target))
        self._put_current(member_id, replace(current, epoch=0, previous_epoch=0), now_ms)

    def _come_back(self, member_id: str, now_ms: int) -> None:
        """A static member is back under its own id."""
        current = self._members.current(member_id)
        if current.epoch == TEMPORARY_LEAVE_EPOCH:
            self._put_current(member_id, replace(current, epoch=0, previous_epoch=0), now_ms)

    # --- leaving -------------------------------------------------------------------------------

    def _leave(
        self, request: ConsumerHeartbeat, now_ms: int, effects: Effects
    ) -> ConsumerHeartbeatAnswer:
        check_leaver(self._members, request)
        self._remove([request.member_id], now_ms, effects)
        return _farewell(request)

    def _leave_for_a_while(
        self, request: ConsumerHeartbeat, now_ms: int, effects: Effects
    ) -> ConsumerHeartbeatAnswer:
        """Only what it was giving up anyway is free for others at once."""
        check_leaver(self._members, request)
        member_id = request.member_id
        current = replace(
            self._members.current(member_id),
            epoch=TEMPORARY_LEAVE_EPOCH,
            state=MemberState.STABLE,
            revoking=NOTHING,
        )
        self._put_current(member_id, current, now_ms)
        effects.record(encode_current(self.name, member_id, current))
        self._sessions.set(member_id, now_ms + self.config.session_timeout_ms)
        return _farewell(request)

    def _remove(self, member_ids: Collection[str], now_ms: int, effects: Effects) -> None:
        """However many go, the others' next heartbeat works out the targets once."""
        for member_id in member_ids:
            self._members.remove(member_id)
            self._sessions.cancel(member_id)
            self._revocations.cancel(member_id)
            effects.records.extend(member_tombstones(self.name, member_id))
        self._put_epochs(
            replace(
                self._epochs,
                epoch=self._epochs.assignment_epoch + 1,
                empty_since_ms=None if self._members else now_ms,
            ),
            effects,
        )

    # --- assignment ----------------------------------------------------------------------------

    def _assign(self, resolution: Resolution, has_changed: bool, effects: Effects) -> None:
        """Work out who is to own what, if anything that it depends on has changed. Changes that
        come before anybody has seen the next epoch share it."""
        members, epochs = self._members, self._epochs
        assignor = members.favourite_assignor() or self.config.default_assignor
        digest = resolution.digest(assignor)
        self._resolution = resolution
        self._topics_may_have_changed = False
        is_current = epochs.epoch == epochs.assignment_epoch and digest == epochs.topics_digest
        if is_current and not has_changed:
            return
        subscriptions = {
            member_id: MemberSubscription(
                instance_id=membership.instance_id, topics=resolution.topics_of(membership)
            )
            for member_id, membership in members.memberships.items()
        }
        targets = assign(assignor, members.memberships, subscriptions, resolution, members.targets)
        assert are_disjoint(targets.values()), (self.name, assignor, targets)
        for member_id, target in targets.items():
            if member_id not in members.targets or target != members.targets[member_id]:
                effects.record(encode_target(self.name, member_id, target))
        members.targets = targets
        epoch = epochs.assignment_epoch + 1
        self._put_epochs(Epochs(epoch=epoch, assignment_epoch=epoch, topics_digest=digest), effects)

    def _reconcile(
        self, member_id: str, request: ConsumerHeartbeat, now_ms: int, effects: Effects
    ) -> Current:
        members = self._members
        current = members.current(member_id)
        step = reconcile(
            current,
            target=members.target(member_id),
            target_epoch=self._epochs.assignment_epoch,
            owned=request.owned,
            is_free=lambda topic, partition: members.owner(topic, partition) in (None, member_id),
        )
        if step is not current:
            self._put_current(member_id, step, now_ms)
            effects.record(encode_current(self.name, member_id, step))
        return step

    def _put_current(self, member_id: str, current: Current, now_ms: int) -> None:
        self._members.put_current(member_id, current)
        if current.state is MemberState.UNREVOKED:
            timeout_ms = self._members.memberships[member_id].rebalance_timeout_ms
            self._revocations.set(member_id, now_ms + timeout_ms)
        else:
            self._revocations.cancel(member_id)

    def _put_epochs(self, epochs: Epochs, effects: Effects) -> None:
        if epochs != self._epochs:
            self._epochs = epochs
            effects.record(encode_epochs(self.name, epochs))


def _check_owners(saved: SavedGroup) -> None:
    """What the machine rests on and no machine wrote otherwise."""
    instances = [one.instance_id for one in saved.memberships.values() if one.instance_id]
    owned = [
        partition
        for member_id in saved.memberships.keys() & saved.currents.keys()
        for assignment in (saved.currents[member_id].assigned, saved.currents[member_id].revoking)
        for partition in partitions_of(assignment)
    ]
    if len(set(instances)) < len(instances) or len(set(owned)) < len(owned):
        raise CorruptLog("The records of a consumer group give one thing to two of its members.")


def _is_full(request: ConsumerHeartbeat) -> bool:
    """A member that joins, or missed an answer, says everything; and is told everything."""
    subscribes = request.topic_names is not None or request.topic_pattern is not None
    return request.member_epoch == JOIN_EPOCH or (
        request.rebalance_timeout_ms is not None and subscribes and request.owned is not None
    )


def _farewell(request: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
    return ConsumerHeartbeatAnswer(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        heartbeat_interval_ms=0,
        assignment=None,
    )
