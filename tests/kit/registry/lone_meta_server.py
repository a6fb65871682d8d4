"""A lone meta server within a test, on a socket."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

from penstock.registry.metaserver.client import MetaRegistry
from penstock.registry.metaserver.config import MetaConfig, parse_meta
from penstock.registry.metaserver.standalone import StandaloneMetaServer
from tests.kit.simulated_disk import SimulatedDisk


def config() -> MetaConfig:
    """Of a server that is yet to be started."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return replace(parse_meta(f"meta://1@127.0.0.1:{port}"), patience_ms=3_000)


def server(config: MetaConfig, disk: SimulatedDisk) -> StandaloneMetaServer:
    return StandaloneMetaServer(disk.root, 1, config.servers, config.servers[1])


@contextlib.asynccontextmanager
async def opened(config: MetaConfig, cluster_id: str = "cluster") -> AsyncIterator[MetaRegistry]:
    registry = MetaRegistry(config, cluster_id)
    await registry.open()
    try:
        yield registry
    finally:
        await registry.close()
