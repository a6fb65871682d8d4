"""Who owned which partition and when, what was committed and what was read: recorded by members as
it happens, and checked afterwards.

Not who the members are. The checkers are named after what they show. The invariant of the record: a
member owns a partition from when it is told of it until it has stopped reading it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.model.ids import TopicPartition


@dataclass(slots=True)
class Ownership:
    """One member's time with a partition."""

    member: str
    epoch: int
    began_s: float
    position: int
    """Where it began to read."""
    ended_s: float = float("inf")


@dataclass(slots=True)
class GroupHistory:
    """What the members of one group did."""

    owned: dict[TopicPartition, list[Ownership]] = field(default_factory=lambda: defaultdict(list))
    committed: dict[TopicPartition, list[tuple[float, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Offsets, and when the broker had said that it has them."""
    read: list[tuple[float, TopicPartition, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def note_assigned(
        self, member: str, epoch: int, partition: TopicPartition, position: int
    ) -> None:
        self.owned[partition].append(Ownership(member, epoch, time.monotonic(), position))

    def note_revoked(self, member: str, partition: TopicPartition) -> None:
        for ownership in reversed(self.owned[partition]):
            if ownership.member == member:
                ownership.ended_s = min(ownership.ended_s, time.monotonic())
                return
        # Not raised: what a member's callback raises is only logged.
        self.problems.append(f"{member} gives up {partition}, which it never had")

    def note_gone(self, member: str) -> None:
        """It reads nothing any more."""
        for partition, ownerships in self.owned.items():
            if any(ownership.member == member for ownership in ownerships):
                self.note_revoked(member, partition)

    def note_committed(self, partition: TopicPartition, offset: int) -> None:
        self.committed[partition].append((time.monotonic(), offset))

    def note_read(self, partition: TopicPartition, offset: int) -> None:
        self.read.append((time.monotonic(), partition, offset))

    # --- what must hold ------------------------------------------------------------------------

    def check_one_owner_at_a_time(self) -> None:
        assert not self.problems, self.problems
        for partition, ownerships in self.owned.items():
            for one, next_one in pairwise(sorted(ownerships, key=lambda each: each.began_s)):
                assert one.ended_s <= next_one.began_s, (partition, one, next_one)

    def check_one_owner_in_an_epoch(self) -> None:
        for partition, ownerships in self.owned.items():
            owners: dict[int, str] = {}
            for each in ownerships:
                owner = owners.setdefault(each.epoch, each.member)
                assert owner == each.member, (partition, each.epoch, owner, each.member)

    def check_no_lost_commit(self) -> None:
        """Nobody begins before a place that was committed before it was told of the partition."""
        for partition, ownerships in self.owned.items():
            for each in ownerships:
                before = [
                    offset for at_s, offset in self.committed[partition] if at_s <= each.began_s
                ]
                assert each.position >= max(before, default=0), (partition, each, max(before))

    def check_progress(self, pause_s_max: float) -> None:
        """Something was read all along."""
        times = [at_s for at_s, _, _ in self.read]
        longest_s = max((later - earlier for earlier, later in pairwise(times)), default=0.0)
        assert longest_s <= pause_s_max, f"nothing was read for {longest_s:.1f} s"

    def distinct(self) -> set[tuple[TopicPartition, int]]:
        return {(partition, offset) for _, partition, offset in self.read}
