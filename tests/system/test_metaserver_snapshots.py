"""A meta server that is far behind, over sockets: Raft resets its log, and another gives it the
state (R-REP-5, R-STO-7)."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from penstock.registry.metaserver import server
from penstock.registry.metaserver.client import MetaRegistry
from penstock.registry.metaserver.config import parse_meta
from penstock.registry.metaserver.machine import MetaMachine
from penstock.registry.metaserver.standalone import StandaloneMetaServer
from penstock.storage.files.os_files import OsDirectory
from tests.kit.net.sockets import free_ports
from tests.kit.registry.facts import broker, eventually


async def test_a_server_that_was_away_for_long_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MetaMachine", partial(MetaMachine, snapshot_changes=20))
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(free_ports(3), 1))
    config = replace(parse_meta(f"meta://{voters}"), patience_ms=10_000)

    def make(number: int) -> StandaloneMetaServer:
        folder = tmp_path / str(number)
        folder.mkdir(exist_ok=True)
        place = config.servers[number]
        return StandaloneMetaServer(OsDirectory(str(folder)), number, config.servers, place)

    async with contextlib.AsyncExitStack() as running:
        one, two = [await running.enter_async_context(make(number)) for number in (1, 2)]
        registry = MetaRegistry(config, "cluster")
        await registry.open()
        running.push_async_callback(registry.close)
        await registry.register_broker(broker(1))
        for number in range(150):
            await registry.create_topic(f"t{number}", 1, {})
        three = await running.enter_async_context(make(3))
        await eventually(lambda: min(map(version, (one, two, three))) >= 151)
        assert log_start(three) > 0, "it was not given the whole log"
        # It serves as well as any: one of the others may go.
        await registry.create_topic("last", 1, {})
        await eventually(lambda: version(three) >= 152)


def machine(running: StandaloneMetaServer) -> MetaMachine:
    assert running._meta is not None
    assert running._meta._service is not None
    return running._meta._service.machine


def version(running: StandaloneMetaServer) -> int:
    return machine(running).state.version


def log_start(running: StandaloneMetaServer) -> int:
    return machine(running).replica.log.first_offset
