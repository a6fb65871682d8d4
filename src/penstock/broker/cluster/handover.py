"""Before a broker stops in order: others lead what it led, so that nobody waits for an election.

Not the stopping. The invariant: it takes a bounded time, whatever the others do; what nobody took
over is left to an election.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.broker.partitions.partitions import Partitions
from penstock.model.ids import TopicPartition
from penstock.net.clock import Clock
from penstock.raft.membership import Node
from penstock.replication.disk.driver import Driver
from penstock.replication.peers.peering import Peering
from penstock.replication.replica.participant import Participant

logger = logging.getLogger(__name__)

_PATIENCE_S: Final = 3.0
_LOOK_S: Final = 0.02
_ANSWER_S: Final = 0.5


async def hand_over(partitions: Partitions, peering: Peering, driver: Driver, clock: Clock) -> None:
    """Let others lead what they have, and wait until they do."""
    give_up_at = clock.monotonic() + _PATIENCE_S
    # When each partition's next heir may be asked: two at once would hinder each other.
    asked: dict[TopicPartition, tuple[float, set[Node]]] = {}
    while clock.monotonic() < give_up_at:
        is_over = True
        for partition in partitions.all():
            participant = peering.replicas.find(partition.replica.partition)
            if participant is None or not partition.replica.is_leader:
                continue
            heirs = _heirs(participant, peering)
            if heirs:
                is_over = False
                not_before, tried = asked.get(partition.name, (0.0, set()))
                heir = next((each for each in heirs if each not in tried), heirs[0])
                if clock.monotonic() >= not_before and participant.transfer(heir):
                    asked[partition.name] = clock.monotonic() + _ANSWER_S, tried | {heir}
        driver.end_turn()
        if is_over:
            return
        await asyncio.sleep(_LOOK_S)
    logger.warning("Some partitions were not taken over by others in %g s", _PATIENCE_S)


def _heirs(participant: Participant, peering: Peering) -> list[Node]:
    """Others who vote, have everything, and can be reached."""
    others = participant.in_sync - {peering.me}
    return [node for node in sorted(others) if peering.links.channel(node.broker) is not None]
