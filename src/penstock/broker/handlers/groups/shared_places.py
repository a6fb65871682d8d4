"""Where a shared group stands in its partitions, for people: read from what their leaders wrote.

Not where it stands at this moment: what is leased, and what was settled since the last write, only
the leader knows. The invariant: a place that cannot be read is told as such, and spoils no other.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.broker.context import Context
from penstock.coordination.delivery.shared_state import (
    SavedKind,
    ShareState,
    decode_share_state,
    encode_share_state,
)
from penstock.coordination.group.shared.states import KeptState
from penstock.model.errors import PenstockError, UnknownTopicId

UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPlace:
    """Of one group in one partition."""

    topic: str
    topic_id: str
    partition: int
    leader_term: int = 0
    start: int = UNKNOWN
    """The first message that is not done."""
    acknowledged: int = 0
    dead: int = 0
    expired: int = 0
    done_beyond: int = 0
    """Messages behind the first one that are done."""
    high_watermark: int = UNKNOWN
    """As this broker heard it last."""
    error: PenstockError | None = None
    """Why nothing of it can be told."""

    @property
    def lag(self) -> int:
        """Messages that the group is not done with."""
        if UNKNOWN in (self.start, self.high_watermark):
            return UNKNOWN
        return max(self.high_watermark - self.start - self.done_beyond, 0)


def standing_place(context: Context, kept: KeptState) -> StandingPlace:
    """What was written down, and how far the partition is."""
    try:
        state = decode_share_state(kept.state)
        topic = context.registry.image.topic_by_id(bytes.fromhex(kept.topic_id))
        if kept.partition >= len(topic.partitions):
            raise UnknownTopicId(f"There is no partition {kept.partition} of {kept.topic!r}.")
    except PenstockError as error:
        return StandingPlace(
            topic=kept.topic, topic_id=kept.topic_id, partition=kept.partition, error=error
        )
    claim = context.leaders.told(topic, kept.partition)
    return StandingPlace(
        topic=kept.topic,
        topic_id=kept.topic_id,
        partition=kept.partition,
        leader_term=kept.leader_term,
        start=state.start,
        acknowledged=state.acknowledged,
        dead=state.dead,
        expired=state.expired,
        done_beyond=sum(run.length for run in state.runs if run.kind is SavedKind.DONE),
        high_watermark=UNKNOWN if claim is None else claim.told.commit_offset,
    )


def beginning_at(offset: int) -> bytes:
    """The state of a group that begins there."""
    return encode_share_state(ShareState(start=offset, ceiling=offset))
