"""What can happen to meta servers and to brokers that use them: killed, stopped, gone, wiped.
Nothing answered is lost or made twice, nothing stale is served, one broker is controller
(R-REP-5)."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.errors import NotLeader, RegistryUnavailable, TopicExists
from penstock.net.address import parse_address
from penstock.net.channel import connect_channel
from penstock.net.clock import SystemClock
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.metaserver.client import MetaRegistry
from tests.kit.processes.meta_servers import PATIENCE_MS, SESSION_TIMEOUT_MS, MetaQuorum
from tests.kit.registry.facts import broker, eventually, leads


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MetaQuorum]:
    with MetaQuorum(tmp_path) as quorum:
        yield quorum


async def until_made(registry: MetaRegistry, name: str) -> object:
    while True:
        try:
            return await registry.create_topic(name, 1, {})
        except RegistryUnavailable:
            await asyncio.sleep(0.1)


async def test_a_leader_that_is_killed_takes_no_answer_with_it(cluster: MetaQuorum) -> None:
    """Again and again, under a stream of changes from three brokers."""
    async with cluster.opened(1) as one, cluster.opened(2) as two, cluster.opened(3) as three:
        taken: list[int] = []
        made: set[str] = set()
        waits_s: list[float] = []
        is_over = False

        async def stream(registry: MetaRegistry, sign: str) -> None:
            number = 0
            while not is_over:
                began_at = time.monotonic()
                number += 1
                await registry.create_topic(f"{sign}{number}", 1, {})
                made.add(f"{sign}{number}")
                taken.extend(await registry.reserve_producer_ids(3))
                waits_s.append(time.monotonic() - began_at)

        streams = [
            asyncio.create_task(stream(each, sign))
            for each, sign in ((one, "a"), (two, "b"), (three, "c"))
        ]
        for _ in range(4):
            await asyncio.sleep(0.5)
            killed = await cluster.leader()
            killed.kill()
            await cluster.leader(beside=killed.number)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(cluster.start, killed.number)
        is_over = True
        # No change was refused: each waited for the next leader, and none found itself made.
        await asyncio.gather(*streams)
        assert len(taken) == len(set(taken)), "given away twice"
        assert max(taken) + 1 == len(taken), "a change was made that nobody asked for"
        async with cluster.opened() as later:
            assert set(later.image.topics) == made
        assert max(waits_s) < PATIENCE_MS / 1000
        everybody = (one, two, three)
        await eventually(lambda: all(len(each.image.brokers) == 3 for each in everybody))


async def test_a_leader_that_was_stopped_serves_nothing_stale(cluster: MetaQuorum) -> None:
    """SIGSTOP, and SIGCONT when another leads: what was asked meanwhile waits in its sockets."""
    async with cluster.opened(1) as one:
        await one.create_topic("orders", 1, {})
        old = await cluster.leader()
        channels = [await connect_channel(parse_address(old.address)) for _ in range(3)]
        version = one.image.version
        old.pause()
        beat = pb.MetaHeartbeatRequest(broker=1, directory=broker(1).directory)
        asked = [
            asyncio.ensure_future(
                channels[0].call(calls.META_FETCH, pb.MetaFetchRequest(seen_version=-1))
            ),
            asyncio.ensure_future(channels[1].call(calls.META_HEARTBEAT, beat)),
            asyncio.ensure_future(
                channels[2].call(
                    calls.META_FETCH,
                    pb.MetaFetchRequest(seen_version=version, max_wait_ms=20_000),
                )
            ),
        ]
        await cluster.leader(beside=old.number)
        await until_made(one, "events")
        old.resume()
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(answer, NotLeader)
        assert set(one.image.topics) == {"orders", "events"}
        for channel in channels:
            channel.close()
        # It follows, and has what it missed when it leads again.
        (await cluster.leader(beside=old.number)).kill()
        await until_made(one, "later")
        async with cluster.opened() as later:
            assert set(later.image.topics) == {"orders", "events", "later"}


async def test_servers_go_and_come_back(cluster: MetaQuorum) -> None:
    """What is known is served; a change fails with a sentence and in time; the loop goes on."""
    async with cluster.opened(1) as one, cluster.opened(2) as two:
        await one.create_topic("orders", 1, {})
        await eventually(lambda: "orders" in two.image.topics)
        for server in cluster.servers.values():
            server.kill()
        for registry in (one, two):
            began_at = time.monotonic()
            with pytest.raises(RegistryUnavailable, match="do not serve"):
                await registry.create_topic("events", 1, {})
            assert time.monotonic() - began_at < PATIENCE_MS / 1000 + 2
            assert list(registry.image.topics) == ["orders"]
            assert sorted(registry.image.brokers) == [1, 2]
        assert not leads(one)
        assert not leads(two)
        await asyncio.to_thread(cluster.start, 1, 2, 3)
        await until_made(two, "events")
        await eventually(lambda: "events" in one.image.topics)
        await eventually(lambda: sorted(one.image.brokers) == sorted(two.image.brokers) == [1, 2])
        await eventually(lambda: leads(one))
        assert not leads(two)


async def test_a_minority_serves_nothing(cluster: MetaQuorum) -> None:
    async with cluster.opened(1) as one:
        left = await cluster.leader()
        for server in cluster.servers.values():
            if server is not left:
                server.kill()
        with pytest.raises(RegistryUnavailable):
            await one.create_topic("orders", 1, {})
        await eventually(lambda: not leads(one))
        late = MetaRegistry(cluster.config, "late")
        with pytest.raises(RegistryUnavailable):
            await late.open()
        gone = [number for number, server in cluster.servers.items() if server is not left]
        await asyncio.to_thread(cluster.start, *gone)
        # What was refused may have been kept by the one that was left.
        try:
            await until_made(one, "orders")
        except TopicExists:
            await eventually(lambda: list(one.image.topics) == ["orders"])


async def test_a_registry_closes_while_the_servers_are_gone(cluster: MetaQuorum) -> None:
    async with cluster.opened(1) as one:
        for server in cluster.servers.values():
            server.kill()
        waiting = asyncio.create_task(one.create_topic("orders", 1, {}))
        await asyncio.sleep(0.1)
        await asyncio.wait_for(one.close(), 10)
        with pytest.raises(RegistryUnavailable):
            await waiting
        with pytest.raises(RegistryUnavailable):
            await one.create_topic("orders", 1, {})


async def test_a_wiped_server_gives_no_vote_away(cluster: MetaQuorum) -> None:
    """Two servers have what is committed; one of them loses its folder, and the third never had it.
    These two are a majority, and must not elect a leader that knows nothing."""
    leader = await cluster.leader()
    behind = next(server for server in cluster.servers.values() if server is not leader)
    other = next(each for each in cluster.servers.values() if each not in (leader, behind))
    async with cluster.opened(1) as one:
        await one.create_topic("early", 1, {})
        behind.kill()
        topic = await one.create_topic("orders", 1, {})
    leader.kill()
    other.kill()
    other.wipe()
    await asyncio.to_thread(cluster.start, behind.number, other.number)
    nobody = MetaRegistry(cluster.config, "nobody")
    with pytest.raises(RegistryUnavailable):
        await nobody.open()
    await asyncio.to_thread(cluster.start, leader.number)
    async with cluster.opened(1) as one:
        assert one.image.topic("orders") == topic
        leader.kill()
        # By now the wiped one has everything, and votes.
        await until_made(one, "events")
        assert set(one.image.topics) == {"early", "orders", "events"}


# --- brokers -------------------------------------------------------------------------------------


class JumpingClock(SystemClock):
    """A process that stood still: when it goes on, much time has passed at once."""

    __slots__ = ("jumped_s",)

    def __init__(self) -> None:
        self.jumped_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.jumped_s


async def test_a_process_that_stood_still_is_not_controller_when_it_goes_on(
    cluster: MetaQuorum,
) -> None:
    clock = JumpingClock()
    async with cluster.opened(1, clock=clock) as one:
        assert leads(one)
        clock.jumped_s += SESSION_TIMEOUT_MS / 1000
        assert not leads(one), "before anybody tells it that its session is over"
        await eventually(lambda: leads(one))


STAND_ALONE = """
import asyncio, sys, time
from dataclasses import replace
from penstock.registry.metaserver.client import MetaRegistry
from penstock.registry.metaserver.config import parse_meta
from tests.kit.registry.facts import broker

async def main():
    registry = MetaRegistry(parse_meta(sys.argv[1]), "cluster")
    await registry.open()
    await registry.register_broker(broker(2))
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
def second_broker(cluster: MetaQuorum) -> Iterator[subprocess.Popen[str]]:
    """A process that has registered as broker 2."""
    command = [sys.executable, "-c", STAND_ALONE, str(cluster.config)]
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
    cluster: MetaQuorum, second_broker: subprocess.Popen[str]
) -> None:
    async with cluster.opened() as watching:
        await eventually(lambda: list(watching.image.brokers) == [2])
        await eventually(lambda: watching.image.controller == 2)
        second_broker.kill()
        killed_at = time.monotonic()
        await eventually(lambda: not watching.image.brokers)
        assert time.monotonic() - killed_at > SESSION_TIMEOUT_MS / 1000 * 0.7
        assert watching.image.controller is None


async def test_a_broker_that_is_stopped_and_goes_on_is_never_controller_beside_another(
    cluster: MetaQuorum, second_broker: subprocess.Popen[str]
) -> None:
    """SIGSTOP beyond the session, then SIGCONT: there are moments before it can know."""
    async with cluster.opened(1) as one:
        assert not leads(one)
        second_broker.send_signal(signal.SIGSTOP)
        await eventually(lambda: leads(one) and list(one.image.brokers) == [1])
        went_on_at = time.monotonic()
        second_broker.send_signal(signal.SIGCONT)
        await eventually(lambda: sorted(one.image.brokers) == [1, 2])
        assert leads(one)
        second_broker.kill()
        output, _ = await asyncio.to_thread(second_broker.communicate)
    claims = [(float(at), claim) for at, claim in map(str.split, output.splitlines())]
    assert [claim for at, claim in claims if at < went_on_at] == ["True"]
    assert {claim for at, claim in claims if at >= went_on_at} == {"False"}


async def test_the_controller_stays_when_the_meta_leader_goes(
    cluster: MetaQuorum, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says that all is well again as soon as it is, though there is no news."""
    caplog.set_level(logging.INFO)
    async with cluster.opened(1) as one, cluster.opened(2) as two:
        assert leads(one)
        killed = await cluster.leader()
        killed.kill()
        await cluster.leader(beside=killed.number)
        # Sooner than anything can be new.
        await eventually(lambda: caplog.messages.count("The meta servers serve again") == 2, 5)
        await eventually(lambda: leads(one))
        await asyncio.sleep(SESSION_TIMEOUT_MS / 1000)
        assert leads(one)
        assert not leads(two)
        assert sorted(two.image.brokers) == [1, 2]
