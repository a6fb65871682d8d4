"""Before a broker stops in order: others lead what it led, so that nobody waits for an election.

Not the stopping. The invariant: it takes a bounded time, whatever the others do; what nobody took
over is left to an election.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.broker.partitions import Partitions
from penstock.net.clock import Clock
from penstock.raft.membership import Node
from penstock.replication.driver import Driver
from penstock.replication.participant import Participant
from penstock.replication.peering import Peering

logger = logging.getLogger(__name__)

_PATIENCE_S: Final = 3.0
_LOOK_S: Final = 0.02


async def hand_over(partitions: Partitions, peering: Peering, driver: Driver, clock: Clock) -> None:
    """Let others lead what they have, and wait until they do."""
    give_up_at = clock.monotonic() + _PATIENCE_S
    asked: set[str] = set()
    while clock.monotonic() < give_up_at:
        left = 0
        for partition in partitions.all():
            participant = peering.replicas.find(partition.replica.partition)
            if participant is None or not partition.replica.is_leader:
                continue
            heir = _heir(participant, peering.me)
            if heir is not None:
                left += 1
                if str(partition.name) not in asked and participant.transfer(heir):
                    asked.add(str(partition.name))
        driver.end_turn()
        if not left:
            return
        await asyncio.sleep(_LOOK_S)
    logger.warning("Some partitions were not taken over by others in %g s", _PATIENCE_S)


def _heir(participant: Participant, me: Node) -> Node | None:
    """Somebody else who votes, and has everything."""
    return min(participant.in_sync - {me}, default=None)
