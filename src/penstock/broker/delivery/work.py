"""What a broker hands messages out with: started together, stopped in the reverse of it.

Not what each does. The invariant: whatever was started is stopped before the partitions and the
groups are that it stands on.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from penstock.broker.carrier.forwarding import Forwarding
from penstock.broker.carrier.parts import Parts
from penstock.broker.config import BrokerConfig
from penstock.broker.delay.coordinator import DelayCoordinator
from penstock.broker.delivery.dead_letters import DeadLetters
from penstock.broker.delivery.filters import Filters
from penstock.broker.delivery.push.streams import Pushes
from penstock.broker.delivery.shared.partitions import Shares
from penstock.broker.groups.client import GroupsClient
from penstock.broker.partitions.unopened import TurnBudget
from penstock.broker.producers.exclusivity import Claims
from penstock.broker.topics.openings import Openings
from penstock.broker.topics.remote_admission import StagedAdmission
from penstock.broker.turns.fair_turns import FairTurns


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryWork:
    """Its parts."""

    forwarding: Forwarding
    dead_letters: DeadLetters
    filters: Filters
    fair_turns: FairTurns
    openings: Openings
    shares: Shares
    pushes: Pushes
    claims: Claims
    delays: DelayCoordinator


def start_delivery_work(
    starting: contextlib.AsyncExitStack,
    config: BrokerConfig,
    parts: Parts,
    groups: GroupsClient,
) -> DeliveryWork:
    """When all partitions are open and the groups are being read."""
    delays = DelayCoordinator(parts)
    delays.start()
    starting.push_async_callback(delays.stop)
    claims = Claims(groups.who_may_write, parts.driver, parts.clock)
    starting.push_async_callback(claims.stop)
    fair_turns = FairTurns()
    starting.callback(fair_turns.close)
    budget = TurnBudget(asyncio.get_running_loop().call_soon)
    staged_admission = StagedAdmission(parts.topics, parts.leaders, parts.clock)
    openings = Openings(fair_turns, budget, parts.driver, staged_admission)
    forwarding = Forwarding(parts, openings)
    dead_letters = DeadLetters(parts.topics, forwarding, fair_turns, parts.clock)
    filters = Filters()
    shares = Shares(
        parts.partitions, groups, dead_letters, filters, fair_turns, budget, parts.clock
    )
    starting.push_async_callback(shares.stop)
    return DeliveryWork(
        forwarding=forwarding,
        dead_letters=dead_letters,
        filters=filters,
        fair_turns=fair_turns,
        openings=openings,
        shares=shares,
        pushes=Pushes(config, parts.clock),
        claims=claims,
        delays=delays,
    )
