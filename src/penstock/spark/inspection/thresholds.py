"""From where on something is a finding: every number of the rules, in one place, with its reason.

Not the rules themselves (`inspection.rules`) and not options of a command. The invariant they are
chosen for: a topic with nothing wrong gives no warning, however few messages it has.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The limits that `inspection.rules` compares with. docs/inspection.md lists them."""

    order_tolerance_ms: int = 1_000
    """Create times of a key or of a producer may go back by this much: clocks are corrected, and
    threads stamp a message a moment before they hand it over."""

    repeat_distance_offsets: int = 10_000
    """Copies of a message that lie closer than this look like a retry, others like a re-run."""

    hot_key_share: float = 0.2
    """A hot key has at least this part of the messages that have a key …"""

    hot_key_ratio: float = 10.0
    """… and as many times the messages of the average other key."""

    hot_key_messages_min: int = 100
    """Below this many messages with a key, chance makes keys hot."""

    slow_delay_ms: int = 5_000
    """A slow producer's median delay is at least this …"""

    slow_ratio: float = 10.0
    """… and as many times the median delay of everybody else's messages."""

    slow_messages_min: int = 10
    """Fewer messages of a producer say nothing about it."""

    imbalance_ratio: float = 2.0
    """The largest partition has at least this many times the average partition's messages."""

    imbalance_choices_min: int = 50
    """Keys, and batches without keys, for each partition, before an imbalance is not chance: with
    50 a partition that is filled at random has twice the average less than once in a million."""

    lag_messages: int = 10_000
    """A group is behind when it has as many messages to read in one topic."""

    small_batch_records: float = 5.0
    """Batches with fewer records on average cost mostly their headers …"""

    small_batch_messages_min: int = 10_000
    """… in a topic with at least this many messages; in smaller ones nobody pays for it."""

    compression_ratio_min: float = 1.1
    """Compression that gains less than this costs more than it saves."""

    compression_bytes_min: int = 8 * 1024 * 1024
    """Topics below this many bytes are not worth advice about compression."""

    clock_ahead_ms: int = 3_600_000
    """Create times later than now by this much are mistakes, and are not used as times. What a
    broker lets through by default is less."""


DEFAULTS = Thresholds()
