"""What clients sent, were told and saw: the facts that the checkers hold the cluster to.

The invariant: a value is in `sent` before any broker can have it, and in `acknowledged` only when
its producer has the answer.
"""

from __future__ import annotations

from collections import defaultdict

from penstock.model.ids import PartitionId


class History:
    """Of one run."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        # Of producers that waited for all: by partition, the value at each offset.
        self.acknowledged: defaultdict[PartitionId, dict[int, bytes]] = defaultdict(dict)
        self.seen: defaultdict[PartitionId, dict[int, bytes]] = defaultdict(dict)
        self.idempotent: defaultdict[PartitionId, set[int]] = defaultdict(set)
        self.acknowledged_with_less = 0

    @property
    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    @property
    def seen_count(self) -> int:
        return sum(map(len, self.seen.values()))
