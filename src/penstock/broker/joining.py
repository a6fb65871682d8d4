"""Whom a broker works with: nobody, or the other brokers of its cluster.

Alone, it keeps the facts in its own folder and has no peers. In a cluster, it runs its meta server
if that is its role, opens the registry, brings along what it had when it was alone, and is told of
the others. The invariant: a folder that belongs to one cluster is never used in another, nor alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.broker.config import META
from penstock.broker.data_folder import Meta, check_alone, check_member, join_cluster
from penstock.broker.ground import Ground
from penstock.model.errors import InvalidConfig, RegistryUnavailable
from penstock.model.ids import BrokerId
from penstock.raft.membership import Node
from penstock.registry import meta_address
from penstock.registry.api import Registry
from penstock.registry.embedded import EmbeddedRegistry, retire
from penstock.registry.image import BrokerImage, ClusterImage
from penstock.registry.meta_address import parse_meta
from penstock.registry.zookeeper.config import parse_zookeeper
from penstock.replication.peers.peering import Peering
from penstock.replication.replica.transport import NoPeers, Surroundings
from penstock.storage.files.files import Directory

if TYPE_CHECKING:
    from penstock.registry.metaserver.client import MetaRegistry
    from penstock.registry.metaserver.server import MetaServer
    from penstock.registry.zookeeper.client import ZooKeeperRegistry

logger = logging.getLogger(__name__)


# How long a starting broker waits for its registry, and between two attempts.
_REGISTRY_PATIENCE_S: Final = 60.0
_REGISTRY_RETRY_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A registry, and who else has copies of what this broker has."""

    registry: Registry
    around: Surroundings
    peering: Peering | None = None
    """None on a broker on its own."""
    known: Callable[[], Mapping[BrokerId, BrokerImage]] = dict
    """The other brokers, also those that the registry has lost."""


def alone(ground: Ground) -> Joined:
    """R-REP-6: nothing to start, nobody to talk to."""
    meta = ground.meta
    check_alone(ground.data, meta)
    ground.cluster_id = meta.cluster_id
    registry = EmbeddedRegistry(
        ground.data, BrokerId(meta.broker_id), meta.cluster_id, directory=meta.directory_id
    )
    return Joined(registry=registry, around=ground.surroundings(NoPeers()))


async def join(starting: contextlib.AsyncExitStack, ground: Ground, address: str) -> Joined:
    """Become a broker of a cluster. What it starts is stopped by the stack; RegistryUnavailable,
    InvalidConfig."""
    config, meta = ground.config, ground.meta
    peering = Peering(
        ground.me,
        lambda: ground.cluster_id,
        ground.driver,
        ground.clock,
        incarnation=secrets.randbits(62),
    )
    ground.receivers.append(peering)
    if META in config.roles:
        ground.meta_server = await _start_meta_server(starting, ground)
        ground.receivers.append(ground.meta_server)
    registry = await _open_registry(starting, ground)
    check_member(ground.data, meta, registry.image.cluster_id)
    await _bring_along(ground.data, meta, registry)
    # From here on it cannot be alone again.
    member = join_cluster(ground.data, meta, registry.image.cluster_id)
    ground.cluster_id = member.cluster_id
    starting.push_async_callback(peering.stop)
    others = OtherBrokers(BrokerId(member.broker_id), peering.know)
    others.follow(registry.image)
    registry.watch(others.follow)
    await registry.register_broker(
        BrokerImage(
            id=BrokerId(member.broker_id),
            address=address,
            host=config.host,
            directory=member.directory_id,
            place=ground.place,
        )
    )
    # Not before it is known that no other process goes by this broker's name.
    peering.start()
    return Joined(
        registry=registry,
        around=ground.surroundings(peering.replicas),
        peering=peering,
        known=lambda: others.known,
    )


async def _start_meta_server(starting: contextlib.AsyncExitStack, ground: Ground) -> MetaServer:
    """The meta server that is this broker's to run, on its port."""
    from penstock.registry.metaserver.server import MetaServer

    server = MetaServer(
        ground.data,
        ground.config.broker_id,
        parse_meta(ground.config.registry),
        driver=ground.driver,
        flusher=ground.flusher,
        clock=ground.clock,
    )
    await server.start()
    starting.push_async_callback(server.stop)
    return server


async def _open_registry(starting: contextlib.AsyncExitStack, ground: Ground) -> Registry:
    """Wait for the registry: whole clusters start at once, and their registries with them."""
    give_up_at = ground.clock.monotonic() + _REGISTRY_PATIENCE_S
    while True:
        registry = _make_registry(ground)
        try:
            await registry.open()
        except RegistryUnavailable as error:
            if ground.clock.monotonic() >= give_up_at:
                raise
            logger.warning("The registry is waited for: %s", error)
            await asyncio.sleep(_REGISTRY_RETRY_S)
        else:
            starting.push_async_callback(registry.close)
            return registry


def _make_registry(ground: Ground) -> MetaRegistry | ZooKeeperRegistry:
    """The broker's own cluster id is for a cluster that does not exist yet."""
    config, cluster_id = ground.config, ground.meta.cluster_id
    may_make = not ground.meta.is_member
    if config.registry.startswith(meta_address.SCHEME):
        from penstock.registry.metaserver.client import MetaRegistry
        from penstock.registry.metaserver.config import MetaConfig

        servers = parse_meta(config.registry)
        return MetaRegistry(
            MetaConfig(servers=servers), cluster_id, may_make=may_make, clock=ground.clock
        )
    try:
        from penstock.registry.zookeeper.client import ZooKeeperRegistry
    except ModuleNotFoundError as error:
        raise InvalidConfig(
            f"The registry is a ZooKeeper, and {error.name} is not installed: "
            "install penstock[zookeeper]."
        ) from None
    return ZooKeeperRegistry(
        parse_zookeeper(config.registry), cluster_id, may_make=may_make, clock=ground.clock
    )


async def _bring_along(data: Directory, meta: Meta, registry: Registry) -> None:
    """Give the cluster what this broker kept when it was alone. After a crash in between it is
    given once more, and changes nothing."""
    kept = EmbeddedRegistry(
        data, BrokerId(meta.broker_id), meta.cluster_id, directory=meta.directory_id
    ).facts
    if kept.topics or kept.deleted_topics or kept.next_producer_id:
        logger.info("The cluster takes over %d topics of this broker", len(kept.topics))
        await registry.adopt(kept)
    retire(data)


class OtherBrokers:
    """The other brokers, and where they are: those that live, and those that are out of the
    registry's reach but may have copies. They go on being talked to, since replicas need no
    registry."""

    def __init__(self, me: BrokerId, know: Callable[[Mapping[Node, str]], None]) -> None:
        self._me = me
        self._know = know
        self.known: dict[BrokerId, BrokerImage] = {}

    def follow(self, image: ClusterImage) -> None:
        used = {
            broker
            for topic in image.topics.values()
            for partition in topic.partitions
            for broker in partition.replicas
        }
        kept = {key: known for key, known in self.known.items() if key in used}
        known = kept | dict(image.brokers)
        known.pop(self._me, None)
        if known != self.known:
            self.known = known
            self._know({broker.node: broker.address for broker in known.values()})
