"""What can happen to a registry on ZooKeeper: sessions expire, brokers are killed or stand still,
servers go and come back. Who lost touch is not controller; what is known is served (R-REP-4)."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient, KazooState

from penstock.model.errors import RegistryUnavailable
from penstock.net.clock import SystemClock
from penstock.registry.image import ClusterImage
from penstock.registry.zookeeper.client import ZooKeeperRegistry
from penstock.registry.zookeeper.config import ZooKeeperConfig
from tests.kit.net.sockets import free_ports
from tests.kit.processes.zookeeper import (
    ZooKeeperEnsemble,
    ZooKeeperServer,
    opened,
    quick,
)
from tests.kit.registry.facts import eventually, leads


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path / "zookeeper", free_ports(1)[0]) as running:
        yield running


@pytest.fixture
def config(server: ZooKeeperServer) -> ZooKeeperConfig:
    return quick(server.address, "/cluster")


def expire(registry: ZooKeeperRegistry) -> None:
    """End the registry's session behind its back: somebody with the same session closes it."""
    client: Any = registry._follower.session._client
    double = KazooClient(hosts=client.hosts[0][0] + ":" + str(client.hosts[0][1]),
                         client_id=client.client_id)  # fmt: skip
    double.start()
    double.stop()
    double.close()


async def test_a_broker_whose_session_expired_registers_anew_and_is_not_controller(
    config: ZooKeeperConfig,
) -> None:
    async with opened(config, 1) as one, opened(config, 2) as two:
        topic = await one.create_topic("orders", 1, {})
        old_session = one._follower.session.id
        await asyncio.to_thread(expire, one)
        await eventually(lambda: one._follower.session.id not in (None, old_session))
        await eventually(lambda: leads(two))
        await eventually(lambda: list(one.image.brokers) == list(two.image.brokers) == [1, 2])
        assert not leads(one), "the other was there first"
        # And it hears of changes again.
        await two.add_partitions("orders", 2)
        await eventually(lambda: len(one.image.topic(topic.name).partitions) == 2)


async def test_the_only_broker_is_controller_again_after_its_session_expired(
    config: ZooKeeperConfig,
) -> None:
    async with opened(config, 1) as one:
        told: list[ClusterImage] = []
        one.watch(told.append)
        old_session = one._follower.session.id
        await asyncio.to_thread(expire, one)
        await eventually(lambda: one._follower.session.id not in (None, old_session))
        await eventually(lambda: leads(one))
        await eventually(lambda: one.image.controller == 1 and list(one.image.brokers) == [1])


async def test_who_has_no_connection_is_not_controller_from_that_moment_on(
    config: ZooKeeperConfig,
) -> None:
    async with opened(config, 1) as one:
        for state in (KazooState.SUSPENDED, KazooState.LOST):
            assert leads(one)
            one._follower.session._hear_state(state)
            assert not leads(one), "not only when the lease is over"
            one._follower.session._hear_state(KazooState.CONNECTED)
            await eventually(lambda: leads(one))


class JumpingClock(SystemClock):
    """A process that stood still: when it goes on, much time has passed at once."""

    __slots__ = ("jumped_s",)

    def __init__(self) -> None:
        self.jumped_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.jumped_s


async def test_a_process_that_stood_still_is_not_controller_when_it_goes_on(
    config: ZooKeeperConfig,
) -> None:
    clock = JumpingClock()
    async with opened(config, 1, clock=clock) as one:
        assert leads(one)
        clock.jumped_s += config.session_timeout_ms / 1000
        assert not leads(one), "before anybody tells it that its session is over"
        await eventually(lambda: leads(one))


STAND_ALONE = """
import asyncio, sys, time
from tests.kit.registry.facts import eventually, leads
from tests.kit.processes.zookeeper import opened, quick

async def main():
    async with opened(quick(sys.argv[1], "/cluster"), 2) as registry:
        print("registered", flush=True)
        looked_at, claimed = time.monotonic(), None
        while True:
            claims, now = registry.is_controller, time.monotonic()
            if claims != claimed or now - looked_at > 0.5:
                print(now, claims, flush=True)
            looked_at, claimed = now, claims
            await asyncio.sleep(0.001)

asyncio.run(main())
"""


@pytest.fixture
def second_broker(server: ZooKeeperServer) -> Iterator[subprocess.Popen[str]]:
    """A process that has registered as broker 2."""
    command = [sys.executable, "-c", STAND_ALONE, server.address]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "registered\n"
            yield process
        finally:
            process.kill()


async def test_a_broker_that_is_killed_vanishes_when_its_session_expires(
    config: ZooKeeperConfig, second_broker: subprocess.Popen[str]
) -> None:
    async with opened(config) as watching:
        await eventually(lambda: list(watching.image.brokers) == [2])
        await eventually(lambda: watching.image.controller == 2)
        second_broker.kill()
        await eventually(lambda: not watching.image.brokers)
        await eventually(lambda: watching.image.controller is None)


async def test_a_broker_that_is_stopped_and_goes_on_is_never_controller_beside_another(
    config: ZooKeeperConfig, second_broker: subprocess.Popen[str]
) -> None:
    """SIGSTOP beyond the session, then SIGCONT: there are moments before it can know."""
    async with opened(config, 1) as one:
        assert not leads(one)
        second_broker.send_signal(signal.SIGSTOP)
        await eventually(lambda: leads(one) and list(one.image.brokers) == [1])
        went_on_at = time.monotonic()
        second_broker.send_signal(signal.SIGCONT)
        await eventually(lambda: list(one.image.brokers) == [1, 2])
        assert leads(one)
        second_broker.kill()
        output, _ = await asyncio.to_thread(second_broker.communicate)
    claims = [(float(at), claim) for at, claim in map(str.split, output.splitlines())]
    assert [claim for at, claim in claims if at < went_on_at] == ["True"]
    assert {claim for at, claim in claims if at >= went_on_at} == {"False"}


async def test_zookeeper_goes_and_comes_back(
    server: ZooKeeperServer, config: ZooKeeperConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """What is known is served; a change fails with a sentence and in time; the loop goes on."""
    async with opened(config, 1) as one, opened(config, 2) as two:
        await one.create_topic("orders", 1, {})
        await eventually(lambda: "orders" in two.image.topics)
        server.kill()
        await eventually(lambda: not leads(one))
        slowest = asyncio.create_task(slowest_turn())
        for registry in (one, two):
            with pytest.raises(RegistryUnavailable, match="ZooKeeper cannot be reached at"):
                await asyncio.wait_for(registry.create_topic("events", 1, {}), 10)
            assert list(registry.image.topics) == ["orders"]
            assert list(registry.image.brokers) == [1, 2]
        started_at = time.monotonic()
        with pytest.raises(RegistryUnavailable):
            await one.reserve_producer_ids(1)
        assert time.monotonic() - started_at < 0.5, "patience was at its end already"
        slowest.cancel()
        assert await slowest < 0.5, "the loop did not wait"

        await asyncio.to_thread(server.start)
        await eventually(lambda: leads(one) or leads(two))
        await eventually(lambda: list(one.image.brokers) == list(two.image.brokers) == [1, 2])
        await until_made(two, "events")
        await eventually(lambda: "events" in one.image.topics)
        assert leads(one) != leads(two)
    told = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert not [each for each in told if "kazoo" in each.name], "it would tell of each attempt"
    assert [each.message for each in told].count("ZooKeeper answers again") == 2


async def slowest_turn() -> float:
    slowest_s, turned_at = 0.0, time.monotonic()
    try:
        while True:
            await asyncio.sleep(0.001)
            now = time.monotonic()
            slowest_s, turned_at = max(slowest_s, now - turned_at), now
    except asyncio.CancelledError:
        return slowest_s


async def test_zookeeper_that_stands_still(
    server: ZooKeeperServer, config: ZooKeeperConfig
) -> None:
    """It takes connections and answers nothing."""
    async with opened(config, 1) as one:
        server.pause()
        try:
            with pytest.raises(RegistryUnavailable):
                await asyncio.wait_for(one.create_topic("orders", 1, {}), 10)
            assert not leads(one)
        finally:
            server.resume()
        await eventually(lambda: leads(one) and list(one.image.brokers) == [1])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_an_answer_that_is_none_is_not_the_end(config: ZooKeeperConfig) -> None:
    async with opened(config, 1) as one:
        connection = one._follower.session._client._connection
        reading = connection._read_socket

        def nonsense(read_timeout: float) -> None:
            connection._read_socket = reading
            raise ValueError("an answer that nobody understands")

        connection._read_socket = nonsense
        with pytest.raises(RegistryUnavailable):
            await one.create_topic("orders", 1, {})
        await eventually(lambda: leads(one) and list(one.image.brokers) == [1])
        await until_made(one, "events")


async def test_a_registry_that_finds_no_zookeeper_says_so(tmp_path: Path) -> None:
    config = quick(f"127.0.0.1:{free_ports(1)[0]}", "/cluster")
    with pytest.raises(RegistryUnavailable, match="start it, or correct the address"):
        async with opened(config):
            pass


async def test_a_registry_closes_while_zookeeper_is_gone(
    server: ZooKeeperServer, config: ZooKeeperConfig
) -> None:
    async with opened(config, 1) as one:
        server.kill()
        waiting = asyncio.create_task(one.create_topic("orders", 1, {}))
        await asyncio.sleep(0.1)
        await asyncio.wait_for(one.close(), 10)
        with pytest.raises(RegistryUnavailable):
            await waiting
        with pytest.raises(RegistryUnavailable):
            await one.create_topic("orders", 1, {})


async def test_zookeepers_leader_is_killed(tmp_path: Path) -> None:
    with ZooKeeperEnsemble(tmp_path) as ensemble:
        config = quick(ensemble.address, "/cluster")
        async with opened(config, 1) as one, opened(config, 2) as two:
            await one.create_topic("orders", 1, {})
            await eventually(lambda: "orders" in two.image.topics)
            ensemble.leader.kill()
            made = await until_made(one, "events")
            await eventually(lambda: two.image.topics.get("events") == made)
            await eventually(lambda: leads(one) != leads(two))
            await eventually(lambda: list(one.image.brokers) == list(two.image.brokers) == [1, 2])


async def until_made(registry: ZooKeeperRegistry, name: str) -> object:
    while True:
        try:
            return await registry.create_topic(name, 1, {})
        except RegistryUnavailable:
            await asyncio.sleep(0.1)
