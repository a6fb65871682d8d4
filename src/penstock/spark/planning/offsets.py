"""The place of a streaming query: what Spark keeps of it in the checkpoint, as JSON.

The format is docs/formats/spark-offsets.md. The shape is that of Spark's Kafka source,
`{topic: {partition: next offset}}`, with one more entry whose name no topic can have. The
invariant: the same place is always the same text, since Spark compares texts to see whether there
is anything new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from penstock.model.errors import InvalidConfig
from penstock.model.ids import TopicPartition

VERSION: Final = 1
# Not a topic's name: these have letters, digits and ._- only.
ABOUT: Final = "$penstock"
# A query's place before its first batch: where that begins is for the first batch to say.
BEGINNING: Final[dict[str, Any]] = {ABOUT: {"version": VERSION, "place": "beginning"}}

ByPartition = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Where a query stands after a batch."""

    positions: ByPartition
    """The next offset of each partition."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Which topics these names were: one deleted and made anew has another id."""
    lost: ByPartition = field(default_factory=dict)
    """How many offsets of each partition were gone before this query could read them."""
    begins: ByPartition = field(default_factory=dict)
    """Where the batch that ends here began, in partitions where that is not where the batch before
    it ended: those that are new, and those that lost offsets. With it a batch that is run again
    after a restart is the same batch, whatever has happened to the topics meanwhile."""
    cuts_ms: ByPartition = field(default_factory=dict)
    """When a crash last cut off the end of each partition where one may, as far as the query knows;
    0: never. Without it a log that has grown beyond the query's place again would seem whole."""

    @property
    def lost_total(self) -> int:
        return sum(self.lost.values())

    def to_json(self) -> dict[str, Any]:
        """What Spark writes into the checkpoint and shows as `startOffset` and `endOffset`."""
        about: dict[str, Any] = {"version": VERSION, "ids": dict(sorted(self.topic_ids.items()))}
        if self.lost:
            about["lost"] = _nested(self.lost)
        if self.begins:
            about["begins"] = _nested(self.begins)
        if self.cuts_ms:
            about["cuts"] = _nested(self.cuts_ms)
        return {**_nested(self.positions), ABOUT: about}

    @classmethod
    def from_json(cls, parsed: Mapping[str, Any]) -> Self:
        """Read what `to_json` made, of this version or an earlier one."""
        try:
            about = parsed.get(ABOUT, {})
            version = about.get("version", VERSION)
            if version > VERSION:
                raise InvalidConfig(
                    f"The checkpoint was written by a newer penstock (its offsets have version "
                    f"{version}, this one reads {VERSION}): install that version, or begin with a "
                    f"new checkpoint."
                )
            return cls(
                positions=_flat({name: parsed[name] for name in parsed if name != ABOUT}),
                topic_ids=dict(about.get("ids", {})),
                lost=_flat(about.get("lost", {})),
                begins=_flat(about.get("begins", {})),
                cuts_ms=_flat(about.get("cuts", {})),
            )
        except (AttributeError, TypeError, ValueError):
            raise InvalidConfig(
                "The offsets in the checkpoint are not those of the data source penstock: begin "
                "with a new checkpoint."
            ) from None


def add_counts(counts: ByPartition, more: ByPartition) -> dict[TopicPartition, int]:
    """The sums, by partition."""
    return {key: counts.get(key, 0) + more.get(key, 0) for key in counts.keys() | more.keys()}


def _nested(flat: ByPartition) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), number in sorted(flat.items()):
        nested.setdefault(topic, {})[str(partition)] = number
    return nested


def _flat(nested: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(number)
        for topic, by_partition in nested.items()
        for partition, number in by_partition.items()
    }
