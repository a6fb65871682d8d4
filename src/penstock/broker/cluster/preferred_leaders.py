"""When another broker is asked to lead a partition that is led here, and not too often (R-REP-7).

The preferred broker leads again once it has been in sync for a while. Not how the lead passes on
(`replication.replica.participant`), nor which partitions are looked at (`broker.cluster.movement`).
The invariant: between two attempts at one partition lies a time in which producers are served.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.broker.partitions.partition import Partition
from penstock.model.ids import TopicPartition
from penstock.raft.membership import Node
from penstock.registry.image import PartitionImage
from penstock.replication.replica.participant import Participant

# A preferred leader that has been in sync for so long is not about to fail again.
_STEADY_S: Final = 10.0
# Between two attempts to let another lead: each keeps producers waiting.
_HAND_OVER_AGAIN_S: Final = 5.0


class Led(NamedTuple):
    """A partition that this broker leads, and where it should be."""

    partition: Partition
    participant: Participant
    placement: PartitionImage


class PreferredLeaders:
    """Of the partitions that one broker leads."""

    def __init__(self, me: Node) -> None:
        self._me = me
        # Since when the preferred leader is in sync, and when another was last asked to lead.
        self._steady_since: dict[TopicPartition, float] = {}
        self._handed_over: dict[TopicPartition, float] = {}

    def is_due(self, led: Led, preferred: Node | None, now: float) -> bool:
        """Whether the preferred leader, None if it is not alive, should lead instead."""
        if preferred == self._me or preferred not in led.partition.replica.in_sync:
            self.not_led(led.partition.name)
            return False
        return now - self._steady_since.setdefault(led.partition.name, now) >= _STEADY_S

    def hand_over(self, led: Led, node: Node, now: float) -> None:
        """Ask the node to lead, unless somebody was asked a moment ago."""
        name = led.partition.name
        if now - self._handed_over.get(name, -_HAND_OVER_AGAIN_S) >= _HAND_OVER_AGAIN_S:
            self._handed_over[name] = now
            self.not_led(name)
            led.participant.transfer(node)

    def not_led(self, name: TopicPartition) -> None:
        """Whoever leads it here next counts anew."""
        self._steady_since.pop(name, None)

    def forget_gone(self, count: int, is_gone: Callable[[TopicPartition], bool]) -> None:
        """What was noted of partitions that are gone must not pile up. count: of those here."""
        for noted in (self._steady_since, self._handed_over):
            if len(noted) > count:
                for name in filter(is_gone, list(noted)):
                    del noted[name]
