"""Offsets that a query was to read and that are gone: what is known of it, in words. Pure.

The broker's facts are given; who found the loss decides what follows from it. The invariant: a
sentence claims no more than the broker recorded. Where it recorded nothing, it says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, Protocol

from penstock.model.ids import TopicPartition
from penstock.model.removal import DeletedTopic, Removal, RemovalCause

LossKind = Literal["removed", "deleted", "made anew", "cut"]
# Of the causes of one loss, and of the losses of one error, so many are told.
_TOLD_MAX: Final = 3
_CAUSES: Final[dict[RemovalCause, str]] = {
    "retention_time": "removed by retention",
    "retention_size": "removed by retention",
    "deleted": "deleted on request",
    "truncated": "cut off by recovery",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Offsets of one partition that were to be read and cannot be any more."""

    kind: LossKind
    """removed: from the log's start. deleted: with the topic. made anew: the same, and there is
    another topic of this name now. cut: from the log's end, by a crash."""
    partition: TopicPartition
    first: int
    end: int | None
    """The offset after the last that is gone; None: as far as the topic went when it ended."""
    topic_id: str | None = None
    """Which topic of this name it was."""
    resumed_at: int | None = None
    """Where reading goes on without them, if that is one place."""
    was_read: bool = False
    """They are not missing: but other messages have their offsets now, or will have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedLoss:
    """A loss with what the broker knows of it."""

    loss: Loss
    count: int | None
    """How many offsets; None: nobody knows."""
    sentence: str


class Facts(Protocol):
    """What the broker remembers."""

    def removals(self, partition: TopicPartition) -> Sequence[Removal]: ...
    def deletions(self, topic: str) -> Sequence[DeletedTopic]: ...


def explain(loss: Loss, facts: Facts) -> ExplainedLoss:
    """The loss in one sentence: which offsets, how many, why and when."""
    if loss.kind in ("removed", "cut"):
        assert loss.end is not None
        told = f"{_offsets(loss.partition, loss.first, loss.end)} are gone: " + _causes(
            loss.first, loss.end, _removals(loss, facts)
        )
        return ExplainedLoss(loss=loss, count=loss.end - loss.first, sentence=f"{told}.")
    return _explain_deletion(loss, facts.deletions(loss.partition.topic))


def summary(losses: Sequence[ExplainedLoss]) -> str:
    """Several losses as one text, the first few of them in full."""
    told = " ".join(each.sentence for each in losses[:_TOLD_MAX])
    if len(losses) <= _TOLD_MAX:
        return told
    return f"{told} So it is with {len(losses) - _TOLD_MAX} other partitions."


def at_text(time_ms: int) -> str:
    """A moment as people read it."""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _explain_deletion(loss: Loss, deletions: Iterable[DeletedTopic]) -> ExplainedLoss:
    topic = loss.partition.topic
    what = "deleted" if loss.kind == "deleted" else "deleted and made anew under its name"
    record = _deletion(loss, deletions)
    when, end = "(when is not recorded)", loss.end
    if record is not None:
        when = f"at {at_text(record.at_ms)}"
        ends = {entry.partition: entry.end_offset for entry in record.partitions}
        end = ends.get(loss.partition.partition) if end is None else end
    if end is None:
        gone = f"what {_name(loss)} had from offset {loss.first} on is gone"
    elif end > loss.first:
        gone = f"{_offsets(loss.partition, loss.first, end)} were not read and are gone"
    else:
        gone = f"all of {_name(loss)} had been read"
    return ExplainedLoss(
        loss=loss,
        count=None if end is None else max(end - loss.first, 0),
        sentence=f"Topic {topic} was {what} {when}: {gone}.",
    )


def _deletion(loss: Loss, deletions: Iterable[DeletedTopic]) -> DeletedTopic | None:
    matching = [
        entry
        for entry in deletions
        if entry.name == loss.partition.topic and loss.topic_id in (None, entry.topic_id)
    ]
    return matching[-1] if matching else None


def _removals(loss: Loss, facts: Facts) -> list[Removal]:
    """Those that can have taken the offsets. One that was cut off went to another message, and
    when that one is gone it is from the log's start."""
    is_cut = loss.kind == "cut"
    return [
        removal
        for removal in facts.removals(loss.partition)
        if (removal.cause == "truncated") == is_cut
    ]


def _causes(first: int, end: int, removals: Sequence[Removal]) -> str:
    """What took the offsets, in their order: "removed by retention (…) at …"."""
    parts: list[tuple[int, int, str]] = []
    next_offset = first
    for removal in sorted(removals, key=lambda each: each.first_offset):
        start, stop = max(removal.first_offset, next_offset), min(removal.end_offset, end)
        if start >= stop:
            continue
        if start > next_offset:
            parts.append((next_offset, start, f"before {at_text(removal.at_ms)}, why is not known"))
        detail = f" ({removal.detail})" if removal.detail else ""
        cause = f"{_CAUSES[removal.cause]}{detail} at {at_text(removal.at_ms)}"
        if parts and parts[-1][2] == cause:
            # Retention removes segment by segment: what people see is one removal.
            start = parts.pop()[0]
        parts.append((start, stop, cause))
        next_offset = stop
    if next_offset < end:
        parts.append((next_offset, end, "why and when is not recorded"))
    if len(parts) == 1:
        return parts[0][2]
    told = [f"{start} to {stop - 1} {why}" for start, stop, why in parts[-_TOLD_MAX:]]
    if len(parts) > _TOLD_MAX:
        told.insert(0, f"{len(parts) - _TOLD_MAX} earlier parts")
    return ", ".join(told)


def _offsets(partition: TopicPartition, first: int, end: int) -> str:
    place = f"{partition.topic}[{partition.partition}]"
    if end - first == 1:
        return f"Offset {first} of {place} (1 message)"
    return f"Offsets {first} to {end - 1} of {place} ({end - first} messages)"


def _name(loss: Loss) -> str:
    return f"{loss.partition.topic}[{loss.partition.partition}]"
