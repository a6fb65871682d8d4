"""A query's place against the topics as they are now: where to go on, and what was lost. Pure.

The invariant: every partition that is there has a begin within its extent, and a begin other than
where the query stood is in `moved`, with a loss beside it unless the partition is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.model.ids import TopicPartition
from penstock.spark.extent import Extent
from penstock.spark.loss import Loss
from penstock.spark.offsets import StreamOffset


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
    is_selected: Callable[[TopicPartition], bool],
) -> Drift:
    """Compare. A partition that the query is no longer to read is left out without a word."""
    begins: dict[TopicPartition, int] = {}
    moved: dict[TopicPartition, int] = {}
    losses: list[Loss] = []
    for partition, extent in sorted(extents.items()):
        position = start.positions.get(partition)
        loss = None
        if position is not None:
            loss = find_loss(partition, position, start.topic_ids.get(partition.topic), extent)
        if position is None or (loss is not None and loss.kind != "cut"):
            begin = extent.start_offset
        elif loss is not None:
            begin = extent.end_offset
        else:
            begin = position
        begins[partition] = begin
        if position != begin or loss is not None:
            moved[partition] = begin
        if loss is not None:
            losses.append(loss)
    for partition, position in sorted(start.positions.items()):
        if partition not in extents and is_selected(partition):
            losses.append(
                Loss(
                    kind="deleted",
                    partition=partition,
                    first=position,
                    end=None,
                    topic_id=start.topic_ids.get(partition.topic),
                )
            )
    return Drift(begins=begins, moved=moved, losses=tuple(losses))


def find_loss(
    partition: TopicPartition, position: int, topic_id: str | None, extent: Extent
) -> Loss | None:
    """What is gone between the position and what the partition has now, if anything."""
    if None not in (topic_id, extent.topic_id) and topic_id != extent.topic_id:
        return Loss(
            kind="made anew", partition=partition, first=position, end=None, topic_id=topic_id
        )
    if position < extent.start_offset:
        return Loss(kind="removed", partition=partition, first=position, end=extent.start_offset)
    if position > extent.end_offset:
        return Loss(kind="cut", partition=partition, first=extent.end_offset, end=position)
    return None
