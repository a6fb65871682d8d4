"""Who waits for what was proposed: until it is durable here, or until it is committed.

Not when that is: the replica says so. The invariant: each is told exactly once, and of those who
wait for the same thing, in the order in which they came. Whoever is told may come again at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from penstock.model.errors import PenstockError

Done = Callable[[PenstockError | None], None]

# The `acks` of a producer that waits for all replicas in sync.
ACKS_ALL: Final = -1

# (end offset, done). A tuple each: this is the hot path.
Queue = deque[tuple[int, Done]]


class Waiting:
    """Of one replica. The queues are filled by it, and never replaced by others."""

    __slots__ = ("by_acks", "by_commit", "by_durable")

    def __init__(self) -> None:
        self.by_commit: Queue = deque()
        self.by_durable: Queue = deque()
        # What a producer waits for by its `acks`; without an answer it waits for no more than one.
        self.by_acks: dict[int, Queue] = {}
        self.share(is_alone=False)

    def share(self, *, is_alone: bool) -> None:
        """Alone, durable here means committed, and all wait in one queue."""
        alone = self.by_commit if is_alone else self.by_durable
        self.by_acks = {ACKS_ALL: self.by_commit, 1: alone, 0: alone}

    def committed(self, offset: int, error: PenstockError | None = None) -> None:
        """error: what is wrong with that all the same."""
        _tell_before(self.by_commit, offset, error)

    def durable(self, offset: int) -> None:
        _tell_before(self.by_durable, offset, None)

    def fail_after(self, offset: int, error: PenstockError) -> None:
        """What lies beyond the offset is gone."""
        for queue in (self.by_durable, self.by_commit):
            failed = [entry for entry in queue if entry[0] > offset]
            kept = [entry for entry in queue if entry[0] <= offset]
            queue.clear()
            queue.extend(kept)
            for _, done in failed:
                done(error)


def _tell_before(queue: Queue, offset: int, error: PenstockError | None) -> None:
    while queue and queue[0][0] <= offset:
        queue.popleft()[1](error)
