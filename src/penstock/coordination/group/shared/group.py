"""A shared group (KIP-932): who its members are, and which partitions each asks for messages.

Not who gets which message, nor how far the group is: those are with the leaders of the partitions.
Every member heartbeats on its own, and nobody has to give up a partition before another may have
it, since messages are leased one by one. So an epoch only tells whether a member knows its
partitions: one that is behind is told them again.

The invariants: a refused request changes nothing; and what takes longer the more members there are
is done for a small group when it changes, for a large one once a heartbeat interval at most, so
that a thousand who join cost little more than one.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.coordination.group.assignors.assignment import NOTHING, Assignment
from penstock.coordination.group.consumer.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    TopicFacts,
    Topics,
)
from penstock.coordination.group.effects import Effects, Ticket
from penstock.coordination.group.sessions import Sessions
from penstock.coordination.group.shared.assignor import SIMPLE, assign_shares
from penstock.coordination.group.shared.membership import ShareMembership, check_share_heartbeat
from penstock.coordination.group.shared.messages import (
    ShareGroupConfig,
    ShareGroupDescription,
    ShareGroupState,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    ShareMemberDescription,
)
from penstock.coordination.group.shared.records import (
    ShareFacts,
    decode_shared,
    encode_facts,
    encode_member,
    encode_share_target,
    shared_tombstones,
)
from penstock.coordination.group.shared.settings import (
    SharedSettings,
    check_agrees,
    first_settings,
)
from penstock.model.errors import (
    CorruptLog,
    FencedMemberEpoch,
    GroupFull,
    PenstockError,
    UnknownMember,
)
from penstock.model.limits import MEMBER_LOST_MS_MAX

_logger = logging.getLogger(__name__)

# A change reaches members with their next heartbeat. Small groups call twice a second; a large one
# calls two hundred times a second at most, all members together.
_HEARTBEAT_INTERVAL_MS_MIN: Final = 500
_INTERVAL_MS_PER_MEMBER: Final = 5


class ShareGroup:
    """One group. What it returns is to be done by the shell, as `effects` says."""

    def __init__(self, name: str, config: ShareGroupConfig) -> None:
        self.name = name
        self.config = config
        """An operator may give it another."""
        # None until the first member is let in.
        self._facts: ShareFacts | None = None
        self._members: dict[str, ShareMembership] = {}
        self._targets: dict[str, Assignment] = {}
        self._told: dict[str, int] = {}
        self._sessions = Sessions()
        self._topics_may_have_changed = True
        # When targets may be worked out again.
        self._assign_from_ms = 0

    @classmethod
    def restore(
        cls,
        name: str,
        config: ShareGroupConfig,
        records: Iterable[tuple[bytes, bytes]],
        now_ms: int,
    ) -> ShareGroup:
        """The group of its last records, whose members all have a whole session before them.
        Raises CorruptLog where they cannot be read."""
        group = cls(name, config)
        saved = decode_shared(records)
        if saved.facts is None:
            raise CorruptLog(f"The records of shared group {name!r} do not say what it is.")
        group._facts = saved.facts
        group._members = saved.members
        group._targets = saved.targets
        for member_id in saved.members:
            group._sessions.set(member_id, now_ms + config.session_timeout_ms)
        if saved.targets.keys() != saved.members.keys():
            # A write that was cut off in the middle: the targets are worked out again.
            group._facts = replace(saved.facts, topics_digest="")
        return group

    # --- requests ------------------------------------------------------------------------------

    def heartbeat(
        self,
        ticket: Ticket[ShareHeartbeatAnswer],
        request: ShareHeartbeat,
        topics: Topics,
        now_ms: int,
    ) -> Effects:
        """Answered at once with ShareHeartbeatAnswer."""
        effects = Effects()
        try:
            check_share_heartbeat(request)
            if request.member_epoch != JOIN_EPOCH and request.member_id not in self._members:
                raise UnknownMember(
                    f"The group has no member {request.member_id!r}: join again with epoch 0."
                )
            if request.member_epoch == LEAVE_EPOCH:
                self._remove([request.member_id], now_ms, effects)
                answer = ShareHeartbeatAnswer(
                    member_id=request.member_id,
                    member_epoch=LEAVE_EPOCH,
                    heartbeat_interval_ms=0,
                    assignment=None,
                )
            else:
                answer = self._stay(request, topics, now_ms, effects)
            effects.answer(ticket, answer)
        except PenstockError as error:
            assert not effects.records, f"refused, and wrote {effects.records}"
            effects.answer(ticket, error)
        return effects

    def renew(self, incarnation: str, now_ms: int, effects: Effects) -> None:
        """What was said of the group so far, by those who lead its partitions, counts no more. One
        that nobody was ever in is there from now on."""
        facts = self._facts or ShareFacts(
            incarnation=incarnation, settings=first_settings(None), empty_since_ms=now_ms
        )
        self._put_facts(replace(facts, incarnation=incarnation), effects)

    def on_topics_changed(self) -> None:
        """Topics have come, gone or grown: the next heartbeat looks at them again."""
        self._topics_may_have_changed = True

    # --- time ----------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int | None:
        """When to call `expire`: never later than there is something to do, seldom earlier."""
        return self._sessions.wake_ms

    def expire(self, now_ms: int) -> Effects:
        """Remove the members whose time is over."""
        effects = Effects()
        silent = self._sessions.expire(now_ms)
        for member_id in silent:
            _logger.info("Shared group %s removes silent member %s.", self.name, member_id)
        if silent:
            self._remove(silent, now_ms, effects)
        return effects

    def lose(self, member_id: str, now_ms: int) -> None:
        """The member's connection has ended: it has until a moment after its next heartbeat."""
        deadline_ms = now_ms + self._heartbeat_interval_ms + MEMBER_LOST_MS_MAX
        if member_id in self._members and deadline_ms < self._sessions.deadline_ms(member_id):
            self._sessions.set(member_id, deadline_ms)

    # --- what others see -----------------------------------------------------------------------

    @property
    def facts(self) -> ShareFacts:
        assert self._facts is not None, f"nobody was ever let in to {self.name}"
        return self._facts

    @property
    def settings(self) -> SharedSettings:
        """How its messages are handed out: as its first member said, and operators since."""
        settings, decided = self.facts.settings, self.config.decided
        return replace(settings, **decided) if decided else settings  # type: ignore[arg-type]

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self._members else ShareGroupState.EMPTY

    def has_member(self, member_id: str) -> bool:
        return member_id in self._members

    @property
    def member_count(self) -> int:
        return len(self._members)

    @property
    def empty_since_ms(self) -> int | None:
        """Since when there are no members; None while there are."""
        return None if self._facts is None else self._facts.empty_since_ms

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*(one.topic_names for one in self._members.values()))

    def describe(self) -> ShareGroupDescription:
        facts = self.facts
        return ShareGroupDescription(
            name=self.name,
            state=self.state,
            epoch=facts.epoch,
            assignment_epoch=facts.assignment_epoch,
            assignor=SIMPLE,
            settings=self.settings,
            members=tuple(
                ShareMemberDescription(
                    member_id=member_id,
                    member_epoch=self._told.get(member_id, 0),
                    rack_id=membership.rack_id,
                    client_id=membership.client_id,
                    client_host=membership.client_host,
                    topic_names=tuple(sorted(membership.topic_names)),
                    assigned=self._targets.get(member_id, NOTHING),
                )
                for member_id, membership in self._members.items()
            ),
        )

    # --- joining, staying, leaving -------------------------------------------------------------

    def _stay(
        self, request: ShareHeartbeat, topics: Topics, now_ms: int, effects: Effects
    ) -> ShareHeartbeatAnswer:
        member_id = request.member_id
        self._check_stayer(request)
        known = self._members.get(member_id)
        membership = (known or ShareMembership()).updated(request)
        # Nothing is refused from here on.
        if self._facts is None:
            assert request.new_incarnation, "the shell makes one"
            settings = first_settings(request.settings)
            self._facts = ShareFacts(incarnation=request.new_incarnation, settings=settings)
        elif self._facts.is_unused:
            self._facts = replace(self._facts, settings=first_settings(request.settings))
        if membership is not known:
            self._members[member_id] = membership
            effects.record(encode_member(self.name, member_id, membership))
        has_changed = known is None or membership.topic_names != known.topic_names
        if has_changed or self._must_look_at_topics:
            if now_ms >= self._assign_from_ms:
                self._assign(topics, has_changed, effects)
                if _INTERVAL_MS_PER_MEMBER * len(self._members) > _HEARTBEAT_INTERVAL_MS_MIN:
                    self._assign_from_ms = now_ms + self._heartbeat_interval_ms
            elif has_changed:
                self._assign_later(member_id, effects)
        self._sessions.set(member_id, now_ms + self.config.session_timeout_ms)
        epoch = self.facts.assignment_epoch
        self._told[member_id] = epoch
        is_behind = request.member_epoch != epoch or request.topic_names is not None
        return ShareHeartbeatAnswer(
            member_id=member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=self._heartbeat_interval_ms,
            assignment=self._targets.get(member_id, NOTHING) if is_behind else None,
        )

    def _check_stayer(self, request: ShareHeartbeat) -> None:
        member_id, epoch = request.member_id, request.member_epoch
        if epoch != JOIN_EPOCH:
            if epoch > self.facts.assignment_epoch:
                raise FencedMemberEpoch(
                    f"Member {member_id!r} has epoch {epoch}, which the group has not reached: "
                    "join again with epoch 0."
                )
        elif member_id not in self._members and len(self._members) >= self.config.members_max:
            raise GroupFull(f"The group has {len(self._members)} members, which is the limit.")
        facts = self._facts
        if request.settings is not None and facts is not None and not facts.is_unused:
            decided = self.config.decided.keys()
            check_agrees(self.name, facts.settings, request.settings, decided)

    def _remove(self, member_ids: Collection[str], now_ms: int, effects: Effects) -> None:
        """However many go, the others' next heartbeat works out the targets once."""
        for member_id in member_ids:
            del self._members[member_id]
            self._targets.pop(member_id, None)
            self._told.pop(member_id, None)
            self._sessions.cancel(member_id)
            effects.records.extend(shared_tombstones(self.name, member_id))
        self._mark_changed(None if self._members else now_ms, effects)

    def _mark_changed(self, empty_since_ms: int | None, effects: Effects) -> None:
        """Have targets worked out by one of the next heartbeats."""
        facts = self.facts
        changed = replace(facts, epoch=facts.assignment_epoch + 1, empty_since_ms=empty_since_ms)
        self._put_facts(changed, effects)

    @property
    def _heartbeat_interval_ms(self) -> int:
        if self.config.keeps_interval:
            return self.config.heartbeat_interval_ms
        often_ms = max(_HEARTBEAT_INTERVAL_MS_MIN, _INTERVAL_MS_PER_MEMBER * len(self._members))
        return min(often_ms, self.config.heartbeat_interval_ms)

    # --- assignment ----------------------------------------------------------------------------

    @property
    def _must_look_at_topics(self) -> bool:
        facts = self.facts
        return self._topics_may_have_changed or facts.epoch > facts.assignment_epoch

    def _assign(self, topics: Topics, has_changed: bool, effects: Effects) -> None:
        """Work out who is to read what, if anything that it depends on has changed."""
        facts = self.facts
        found = {
            name: topic
            for name in self.subscribed_topics()
            if (topic := topics.get(name)) is not None
        }
        digest = _digest(found)
        self._topics_may_have_changed = False
        is_current = facts.epoch == facts.assignment_epoch and digest == facts.topics_digest
        if is_current and not has_changed:
            return
        targets = assign_shares(
            {
                member_id: frozenset(
                    found[name].topic_id for name in membership.topic_names if name in found
                )
                for member_id, membership in self._members.items()
            },
            {topic.topic_id: topic.partition_count for topic in found.values()},
            self._targets,
        )
        for member_id, target in targets.items():
            if member_id not in self._targets or target != self._targets[member_id]:
                effects.record(encode_share_target(self.name, member_id, target))
        self._targets = targets
        epoch = facts.assignment_epoch + 1
        self._put_facts(
            replace(
                facts,
                epoch=epoch,
                assignment_epoch=epoch,
                topics_digest=digest,
                empty_since_ms=None,
            ),
            effects,
        )

    def _assign_later(self, member_id: str, effects: Effects) -> None:
        """The member is new, or reads other topics: it has nothing until targets are worked out."""
        self._targets.pop(member_id, None)
        if self.facts.epoch == self.facts.assignment_epoch:
            self._mark_changed(None, effects)

    def _put_facts(self, facts: ShareFacts, effects: Effects) -> None:
        self._facts = facts
        effects.record(encode_facts(self.name, facts))


def _digest(topics: Mapping[str, TopicFacts]) -> str:
    """Short, since it is written whenever the group changes; the same after a restart."""
    facts = json.dumps(sorted(topics.items()))
    return hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()
