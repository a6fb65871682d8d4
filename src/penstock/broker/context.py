"""What handlers work with: one object per broker, made at its start and handed to every handler."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from penstock.broker.carrier.parts import Channels
from penstock.broker.clients.clients import Clients
from penstock.broker.cluster.work import ClusterWork
from penstock.broker.config import BrokerConfig
from penstock.broker.delivery.work import DeliveryWork
from penstock.broker.groups.client import GroupsClient
from penstock.broker.groups.coordinator import GroupCoordinator
from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.producers.ids import ProducerIds
from penstock.broker.staging.coordinator import StagingCoordinator
from penstock.broker.topics.topics import Topics
from penstock.net.clock import Clock
from penstock.registry.api import Registry
from penstock.replication.disk.driver import Driver


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
    groups_client: GroupsClient
    producer_ids: ProducerIds
    staging: StagingCoordinator
    cluster: ClusterWork
    clients: Clients
    channels: Channels
    delivery: DeliveryWork
