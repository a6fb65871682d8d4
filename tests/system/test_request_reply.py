"""Requests and their replies, with real processes: across brokers, late, killed, a thousand at
once, and by people who were not asked."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import penstock
from penstock.client.client import Client, connect
from penstock.model.errors import ConnectionLost, NoReply, TimedOut
from penstock.model.message_headers import REPLY_TO
from penstock.records import Message
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.processes.cluster import Cluster

SECONDS_MAX = 60
RESPONDER = """
import sys, penstock
with penstock.connect_blocking(sys.argv[1]) as mq:
    with mq.subscribe("prices", group="servers") as consumer:
        print("serves", flush=True)
        for message in consumer:
            message.reply(b"re " + message.value, (("by", b"%d" % __import__("os").getpid()),))
            message.ack()
"""


@contextlib.contextmanager
def responder(bootstrap: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", RESPONDER, bootstrap], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "serves\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextlib.asynccontextmanager
async def serving(mq: Client, topic: str = "prices") -> AsyncIterator[list[Message]]:
    """Reply to everything; what came."""
    got: list[Message] = []

    async def serve() -> None:
        async for message in mq.subscribe(topic, group="servers"):
            got.append(message)
            await message.reply(b"re " + (message.value or b""))
            await message.ack()

    task = asyncio.create_task(serve())
    try:
        yield got
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_another_process_replies(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, responder(broker.address) as process:
        async with asyncio.timeout(SECONDS_MAX), connect(broker.address) as mq:
            reply = await mq.request("prices", b"tea", b"key", headers=[("a", b"b")], timeout=10)
            assert reply.value == b"re tea"
            assert reply.headers == (("by", b"%d" % process.pid),)


async def test_a_thousand_at_once(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        async with (
            asyncio.timeout(SECONDS_MAX),
            connect(broker.address) as asking,
            connect(broker.address) as answering,
            serving(answering),
        ):
            values = [b"%d" % number for number in range(1000)]
            replies = await asyncio.gather(
                *(asking.request("prices", value, timeout=30) for value in values)
            )
            assert [reply.value for reply in replies] == [b"re " + value for value in values]


async def test_a_responder_that_is_killed_is_succeeded_by_the_next(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        async with asyncio.timeout(SECONDS_MAX), connect(broker.address) as mq:
            with responder(broker.address) as process:
                assert (await mq.request("prices", b"tea", timeout=10)).value == b"re tea"
                process.kill()
                process.wait()
                with pytest.raises(TimedOut, match="see whether somebody serves it"):
                    await mq.request("prices", b"coffee", timeout=2)
            # Nobody waits for the reply to coffee; who serves is told so, and goes on.
            asking = asyncio.create_task(mq.request("prices", b"milk", timeout=20))
            outcomes: list[bytes | None] = []
            async for message in mq.subscribe("prices", group="servers"):
                try:
                    await message.reply(b"re " + (message.value or b""))
                    outcomes.append(message.value)
                except NoReply:
                    outcomes.append(None)
                await message.ack()
                if message.value == b"milk":
                    break
            assert (await asking).value == b"re milk"
            assert outcomes[-2:] == [None, b"milk"]


async def test_a_late_reply_and_one_to_a_client_that_is_gone(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        async with asyncio.timeout(SECONDS_MAX), connect(broker.address) as answering:
            consumer = answering.subscribe("prices")
            await consumer.start()
            async with connect(broker.address) as asking:
                with pytest.raises(TimedOut):
                    await asking.request("prices", b"tea", timeout=2)
                [message] = await consumer.fetch()
                with pytest.raises(NoReply, match="any more"):
                    await message.reply(b"late")
            with pytest.raises(NoReply, match="is gone"):
                await message.reply(b"later")


async def test_nobody_replies_who_was_not_asked(tmp_path: Path) -> None:
    """Who knows the connection, but not the token, is refused; and the request waits on."""
    with BrokerProcess(tmp_path) as broker:
        async with (
            asyncio.timeout(SECONDS_MAX),
            connect(broker.address) as asking,
            connect(broker.address) as other,
        ):
            request = asyncio.create_task(asking.request("prices", b"tea", timeout=20))
            consumer = other.subscribe("prices", start="earliest")
            [message] = await consumer.fetch()
            headers = dict(message.headers)
            forged = [(REPLY_TO, headers[REPLY_TO]), ("penstock-correlation", b"0" * 32)]
            await other.publish("forged", b"x", headers=forged)
            [false] = await other.subscribe("forged").fetch()
            with pytest.raises(NoReply):
                await false.reply(b"forged")
            await message.reply(b"true")
            assert (await request).value == b"true"


async def test_replies_find_their_way_between_brokers(tmp_path: Path) -> None:
    """The asking client is connected to one broker, whoever replies first to another, and the
    partition is led by any."""
    with Cluster(tmp_path) as cluster:
        first, second, third = cluster.ids
        async with (
            asyncio.timeout(SECONDS_MAX),
            connect(cluster.addresses[first]) as asking,
            connect(cluster.addresses[second]) as answering,
            contextlib.AsyncExitStack() as stack,
        ):
            await asking.admin.create_topic("prices", 6, replicas=3)
            await stack.enter_async_context(serving(answering))
            for number in range(30):
                reply = await asking.request(
                    "prices", b"%d" % number, partition=number % 6, timeout=20
                )
                assert reply.value == b"re %d" % number
            # The broker on whose connection the reply would come dies: that is told at once.
            links = asking._connection().links
            channel = await links.any_broker()
            broker, _ = links.identity(channel)
            held = asyncio.create_task(asking.request("unserved", b"x", timeout=30))
            while not asking._connection().requests._waiting:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)
            cluster.kill(broker)
            with pytest.raises(ConnectionLost, match="may have been served"):
                await held
            # And the next request goes by another one.
            while True:
                try:
                    reply = await asking.request("prices", b"again", timeout=10)
                    break
                except (ConnectionLost, TimedOut):
                    continue
            assert reply.value == b"re again"
            assert {first, second, third} - {broker}


def test_the_command_and_the_blocking_client(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, responder(broker.address):
        with penstock.connect_blocking(broker.address) as mq:
            assert mq.request("prices", b"tea", timeout=10).value == b"re tea"
            with pytest.raises(TimedOut):
                mq.request("unserved", b"tea", timeout=0.2)
        command = (sys.executable, "-m", "penstock.cli", "request", "--bootstrap", broker.address)
        done = subprocess.run(
            [*command, "prices", "tea"], capture_output=True, text=True, timeout=30, check=False
        )
        assert (done.returncode, done.stdout) == (0, "re tea\n"), done.stderr
        done = subprocess.run(
            [*command, "unserved", "tea", "--timeout", "300ms", "--json"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert "No reply to the request to 'unserved' came within 0.3 s" in done.stderr
        assert "Traceback" not in done.stderr
        done = subprocess.run(
            [*command, "prices", "tea", "--key", "k", "--header", "a=b", "--json"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert '"value": "re tea"' in done.stdout
