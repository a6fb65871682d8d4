"""What a client hands back about a message it published. Plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Where an acknowledged message stands in its topic."""

    topic: str
    partition: int
    offset: int
    """-1 where nobody knows: a producer with acks=0 is told nothing."""

    timestamp_ms: int
    """The message's time; the broker's, where the topic stamps messages as they are appended."""

    duplicate: bool = False
    """The broker had the message already: this send was the retry of one whose answer was lost."""

    id: str = ""
    """Of a message that waits to be delivered: what it is cancelled by. `timestamp_ms` says when it
    is due, and it has no offset yet."""
