"""What handlers work with: one object per broker, made at its start and handed to every handler."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from penstock.broker.clients import Clients
from penstock.broker.cluster_work import ClusterWork
from penstock.broker.config import BrokerConfig
from penstock.broker.delivery_work import DeliveryWork
from penstock.broker.fetch_sessions import FetchSessions
from penstock.broker.group_coordinator import GroupCoordinator
from penstock.broker.leaders import Leaders
from penstock.broker.partitions import Partitions
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.staged_destination import Channels
from penstock.broker.staging_coordinator import StagingCoordinator
from penstock.broker.topics import Topics
from penstock.net.clock import Clock
from penstock.registry.api import Registry
from penstock.replication.driver import Driver


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The parts of a running broker."""

    config: BrokerConfig
    loop: asyncio.AbstractEventLoop
    clock: Clock
    driver: Driver
    registry: Registry
    partitions: Partitions
    leaders: Leaders
    topics: Topics
    groups: GroupCoordinator
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    staging: StagingCoordinator
    cluster: ClusterWork
    clients: Clients
    channels: Channels
    delivery: DeliveryWork
