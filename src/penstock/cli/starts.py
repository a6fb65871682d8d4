"""Where to read from, as people write it: beginning, end, an offset, a moment."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from penstock.cli.quantities import moment_ms
from penstock.model.errors import InvalidRequest, OffsetOutOfRange, UnknownTopic

if TYPE_CHECKING:
    from penstock.client.admin.topics import PartitionDescription, TopicDescription
    from penstock.client.consuming.starts import Start

WAYS: Final = (
    "beginning or earliest, end or latest, an offset, or a time (2026-01-31T12:00:00, 10m-ago)."
)


def parse_start(text: str, now_ms: int) -> Start:
    """The start as the client takes it. Digits are an offset, never a time."""
    if text in ("beginning", "earliest"):
        return "earliest"
    if text in ("end", "latest"):
        return "latest"
    if re.fullmatch(r"[0-9]{1,19}", text):
        return int(text)
    return datetime.fromtimestamp(moment_ms(text, now_ms) / 1000, UTC)


def choose_partitions(
    topic: TopicDescription, number: int | None, start: Start
) -> tuple[PartitionDescription, ...]:
    """The partitions meant, all or the one of this number; refused where the start is nowhere."""
    chosen = topic.partitions
    if number is not None:
        if number >= len(chosen):
            raise UnknownTopic(
                f"There is no partition {number} of {topic.name}: it has {len(chosen)}, counted "
                "from 0."
            )
        chosen = (chosen[number],)
    if isinstance(start, int):
        if len(chosen) > 1:
            raise InvalidRequest(
                f"An offset belongs to a partition, and {topic.name} has {len(chosen)}: say which "
                "with --partition."
            )
        low, high = chosen[0].log_start_offset, chosen[0].high_watermark
        if not low <= start <= high:
            raise OffsetOutOfRange(f"There is no offset {start}: they go from {low} to {high}.")
    return chosen
