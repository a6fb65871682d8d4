"""When each of many partitions must be called: a heap, and what of it counts.

Deadlines mostly move away: then the entry that is there finds out when it is its turn, and asking
for it cost nothing. Not the calling. The invariant: no partition is called later than the earliest
time that was asked for since it was last called.
"""

from __future__ import annotations

import heapq
from itertools import count

from penstock.model.ids import PartitionId


class Deadlines:
    """One for all partitions of a broker."""

    __slots__ = ("_heap", "_order", "_scheduled")

    def __init__(self) -> None:
        # (deadline, order, partition); an entry counts if it is what is scheduled.
        self._heap: list[tuple[int, int, PartitionId]] = []
        self._scheduled: dict[PartitionId, int] = {}
        self._order = count()

    def __contains__(self, partition: PartitionId) -> bool:
        return partition in self._scheduled

    def schedule(self, partition: PartitionId, deadline_ms: int) -> bool:
        """Let it be called by then; whether nothing is due earlier."""
        scheduled_ms = self._scheduled.get(partition)
        if scheduled_ms is not None and deadline_ms >= scheduled_ms:
            return False
        self._scheduled[partition] = deadline_ms
        entry = (deadline_ms, next(self._order), partition)
        heapq.heappush(self._heap, entry)
        return self._heap[0] is entry

    def drop(self, partition: PartitionId) -> None:
        self._scheduled.pop(partition, None)

    @property
    def next_ms(self) -> int | None:
        self._skip()
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> PartitionId | None:
        """One that is to be called now; it has no deadline any more."""
        self._skip()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        partition = heapq.heappop(self._heap)[2]
        del self._scheduled[partition]
        return partition

    def _skip(self) -> None:
        heap = self._heap
        while heap and self._scheduled.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
