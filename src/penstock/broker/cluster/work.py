"""What a broker does for its cluster beside serving clients: started here, handed to handlers.

A broker on its own can be asked the same and has nothing to do. Not the doing itself: that is in
`movement`, `copy_removal`, `controller`, `changes`, `elections` and `view`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from penstock.broker.cluster.changes import ClusterChanges
from penstock.broker.cluster.controller import Controller
from penstock.broker.cluster.copy_removal import CopyRemoval
from penstock.broker.cluster.elections import Elections
from penstock.broker.cluster.movement import Movement
from penstock.broker.cluster.view import ClusterView
from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.topics.assignment import Assignment
from penstock.model.ids import BrokerId
from penstock.registry.api import Registry
from penstock.replication.peers.peering import Peering
from penstock.replication.replica.transport import Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWork:
    """For handlers."""

    changes: ClusterChanges
    elections: Elections
    view: ClusterView
    is_alone: bool


def start_cluster_work(
    starting: contextlib.AsyncExitStack,
    around: Surroundings,
    registry: Registry,
    peering: Peering | None,
    partitions: Partitions,
    assignment: Assignment,
    leaders: Leaders,
    *,
    internal_replication_factor: int,
) -> ClusterWork:
    """What it starts is stopped by the stack. peering: None on a broker on its own."""
    me, clock = BrokerId(around.me.broker), around.clock
    changes = ClusterChanges(registry)
    movement = None
    if peering is not None:
        movement = Movement(around.me, registry, partitions, peering.replicas, around.driver, clock)
        controller = Controller(
            registry,
            changes,
            clock,
            internal_replication_factor=internal_replication_factor,
        )
        copy_removal = CopyRemoval(registry, partitions, assignment, leaders, peering.replicas)
        movement.attend()
        for part in (copy_removal, movement, controller):
            part.rounds.start()
            starting.push_async_callback(part.rounds.stop)
    return ClusterWork(
        changes=changes,
        elections=Elections(me, registry, partitions, leaders, clock, movement, peering),
        view=ClusterView(me, registry, partitions, leaders, peering),
        is_alone=peering is None,
    )
