"""A copy of a partition as a simulated broker serves it: production's objects, and what was seen.

The invariant: it lives as long as its broker's process does; the next life has another.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.broker.partitions.partition import Partition
from penstock.model.errors import PenstockError
from penstock.raft.membership import Membership, Node
from penstock.replication.replica.participant import Participant
from penstock.replication.replica.replica import Replica
from tests.kit.simulation.clusters.copies import Copy
from tests.kit.simulation.clusters.plan import PartitionPlan


@dataclass(eq=False, slots=True, kw_only=True)
class Served:
    """A partition that this broker has a copy of."""

    plan: PartitionPlan
    node: Node
    partition: Partition
    participant: Participant
    copy: Copy
    is_compacting: bool = False
    calls: int = 0
    """Of producers and of users that delete records, which have no answer yet."""
    term_led: int = -1
    """The last that it was seen to lead in."""
    high_watermark_seen: int = 0

    def answered(self, error: PenstockError | None) -> None:
        """One of the calls was, for good or ill."""
        del error
        self.calls -= 1

    @property
    def replica(self) -> Replica:
        return self.partition.replica

    @property
    def leads(self) -> bool:
        return self.replica.is_leader and self.replica.failure is None

    @property
    def membership(self) -> Membership:
        return self.replica.consensus.raft.state.membership
