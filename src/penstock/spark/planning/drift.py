"""What was to be read against the topics as they are now: where to go on, what was lost. Pure.

That is a query's place (`find_drift`) or a range that was planned (`split_lost`). The invariants:
every partition that is there has a begin within its extent, and a begin other than where the query
stood is in `moved`, with a loss beside it unless the partition is new; of a range every offset is
either there or in one loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.model.ids import TopicPartition
from penstock.model.removal import Removal
from penstock.spark.planning.extent import Extent
from penstock.spark.planning.loss import Loss, LossKind
from penstock.spark.planning.offsets import StreamOffset
from penstock.spark.planning.ranges import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How the topics have moved under a query."""

    begins: Mapping[TopicPartition, int]
    """Where to go on, of every partition that is there."""
    moved: Mapping[TopicPartition, int]
    """Those of them that are not where the query stood."""
    losses: tuple[Loss, ...]


def find_drift(
    start: StreamOffset,
    extents: Mapping[TopicPartition, Extent],
    cuts: Mapping[TopicPartition, Sequence[Removal]],
    is_selected: Callable[[TopicPartition], bool],
) -> Drift:
    """Compare. A partition that the query is no longer to read is left out without a word.

    cuts: what crashes took from the ends of partitions, of those where they may.
    """
    begins: dict[TopicPartition, int] = {}
    moved: dict[TopicPartition, int] = {}
    losses: list[Loss] = []
    for partition, extent in sorted(extents.items()):
        position = start.positions.get(partition)
        if position is None:
            begins[partition] = moved[partition] = extent.start_offset
            continue
        topic_id = start.topic_ids.get(partition.topic)
        known = without_new(extent, cuts.get(partition, ()), start.cuts_ms.get(partition))
        loss = _find_loss(partition, position, topic_id, known)
        if loss is None:
            begins[partition] = position
            continue
        begin = extent.start_offset if loss.resumed_at is None else loss.resumed_at
        begins[partition] = moved[partition] = begin
        losses.append(loss)
    for partition, position in sorted(start.positions.items()):
        if partition not in extents and is_selected(partition):
            topic_id = start.topic_ids.get(partition.topic)
            losses.append(
                Loss(
                    kind="deleted", partition=partition, first=position, end=None, topic_id=topic_id
                )
            )
    return Drift(begins=begins, moved=moved, losses=tuple(losses))


def is_behind(
    start: StreamOffset,
    extents: Mapping[TopicPartition, Extent],
    is_selected: Callable[[TopicPartition], bool],
) -> bool:
    """Whether a partition that the query has a place in is missing, and its topic is there. Nobody
    takes partitions from a topic: so a broker told of it that has yet to hear of its latest ones.
    """
    ids = {partition.topic: extent.topic_id for partition, extent in extents.items()}
    return any(
        partition not in extents
        and is_selected(partition)
        and ids.get(partition.topic) is not None
        and ids[partition.topic] == start.topic_ids.get(partition.topic)
        for partition in start.positions
    )


def last_cuts_ms(cuts: Mapping[TopicPartition, Sequence[Removal]]) -> dict[TopicPartition, int]:
    """What a query knows of the cuts when it has seen them all."""
    return {
        partition: max((removal.at_ms for removal in removals), default=0)
        for partition, removals in cuts.items()
    }


def without_new(extent: Extent, cuts: Sequence[Removal], known_ms: int | None) -> Extent:
    """Of what a partition has, what it had before crashes cut off its end, if it was cut since a
    query looked. What was cut before it ever looked is not its concern."""
    if known_ms is None:
        return extent
    firsts = [removal.first_offset for removal in cuts if removal.at_ms > known_ms]
    return extent._replace(end_offset=min([extent.end_offset, *firsts]))


def split_lost(
    wanted: OffsetRange, topic_id: str | None, extent: Extent | None
) -> tuple[OffsetRange, list[Loss]]:
    """What of a range that was to be read is there, and what is not.

    extent: that of the partition as it is now, without what it got since it was cut; None if there
    is no such partition any more.
    """
    partition, start, end = wanted
    if extent is None or _is_another(topic_id, extent):
        kind: LossKind = "deleted" if extent is None else "made anew"
        loss = Loss(kind=kind, partition=partition, first=start, end=end, topic_id=topic_id)
        return wanted._replace(start=end), [loss]
    losses: list[Loss] = []
    if start < extent.start_offset:
        start = min(extent.start_offset, end)
        losses.append(
            Loss(
                kind="removed",
                partition=partition,
                first=wanted.start,
                end=start,
                resumed_at=extent.start_offset,
            )
        )
    if end > extent.end_offset:
        end = max(extent.end_offset, start)
        if end < wanted.end:
            losses.append(Loss(kind="cut", partition=partition, first=end, end=wanted.end))
    return OffsetRange(partition, start, end), losses


def _find_loss(
    partition: TopicPartition, position: int, topic_id: str | None, extent: Extent
) -> Loss | None:
    """What is gone between the position and what the partition still has, if anything."""
    start, end = extent.start_offset, extent.end_offset
    if _is_another(topic_id, extent):
        return Loss(
            kind="made anew", partition=partition, first=position, end=None, topic_id=topic_id
        )
    if position < start:
        return Loss(
            kind="removed", partition=partition, first=position, end=start, resumed_at=start
        )
    if position > end:
        first = max(start, end)
        return Loss(
            kind="cut",
            partition=partition,
            first=first,
            end=position,
            resumed_at=first,
            was_read=True,
        )
    return None


def _is_another(topic_id: str | None, extent: Extent) -> bool:
    """Whether it is another topic of the same name."""
    return None not in (topic_id, extent.topic_id) and topic_id != extent.topic_id
