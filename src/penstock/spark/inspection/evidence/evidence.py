"""What was seen in one topic: the numbers and places that the rules judge. Plain data, no Spark."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.spark.inspection.evidence.tables import (
    CodecRow,
    DeadLetterRow,
    KeyRow,
    LagRow,
    PartitionRow,
    TopicRow,
)
from penstock.spark.inspection.finding import EXAMPLES_MAX, Example


@dataclass(frozen=True, slots=True)
class Sighting:
    """How much of something was seen, and some of the places."""

    count: int = 0
    examples: tuple[Example, ...] = ()

    def __add__(self, other: Sighting) -> Sighting:
        """Both; of the places the first ones."""
        places = {(place.partition, place.offset): place for place in other.examples}
        places |= {(place.partition, place.offset): place for place in self.examples}
        examples = [place for _, place in sorted(places.items())]
        return Sighting(self.count + other.count, tuple(examples[:EXAMPLES_MAX]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowProducer:
    """A producer whose messages come late, beside the rest of the topic."""

    producer_id: int
    messages: int
    delay_p50_ms: int
    others_p50_ms: int
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEvidence:
    """Everything that the rules look at, for one topic."""

    row: TopicRow
    partitions: tuple[PartitionRow, ...]
    unkeyed_batches: int
    missing: Sighting = field(default_factory=Sighting)
    """Offsets that should have a message and have none."""
    control: Sighting = field(default_factory=Sighting)
    """Offsets between two batches of control records, which nobody is shown."""
    skipped: Sighting = field(default_factory=Sighting)
    """Sequences of a producer that are in no batch."""
    repeated: Sighting = field(default_factory=Sighting)
    """Sequences of a producer that are in a second batch."""
    swapped: Sighting = field(default_factory=Sighting)
    """Messages after some that their producer numbered later."""
    ahead: Sighting = field(default_factory=Sighting)
    """Messages that say they were made later than now."""
    producer_back: Sighting = field(default_factory=Sighting)
    """Batches that begin with a message older than some before it of their producer."""
    key_back: Sighting = field(default_factory=Sighting)
    """Messages older than some before them of their key and producer."""
    interleaved: Sighting = field(default_factory=Sighting)
    """Messages older than some before them of their key, from another producer."""
    copied: Sighting = field(default_factory=Sighting)
    """Equal messages in a second batch."""
    far_copies: int = 0
    """Of these, how many lie far from the first."""
    scattered_keys: int = 0
    """Keys in more than one partition."""
    keys: tuple[KeyRow, ...] = ()
    slow: tuple[SlowProducer, ...] = ()
    codecs: tuple[CodecRow, ...] = ()
    lag: tuple[LagRow, ...] = ()
    dead_letters: tuple[DeadLetterRow, ...] = ()
