"""Which partition a message goes to. Pure choice, no state of its own.

A key always goes to the partition that Kafka's clients would choose for it (murmur2, as in its
`BuiltInPartitioner.partitionForKey`), so that producers of both kinds agree. Without a key a
producer stays with one partition until its batch is sealed and then takes the next (KIP-480):
batches are as large as they can be, and the partitions still fill evenly.
"""

from __future__ import annotations

from typing import Final

from penstock.records import murmur2

# Kafka's `toPositive`: it drops the sign bit, which is not the same as the absolute value.
POSITIVE: Final = 0x7FFFFFFF


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition of a keyed message. The producer's hot path has the same line inline."""
    return (murmur2(key) & POSITIVE) % partition_count
