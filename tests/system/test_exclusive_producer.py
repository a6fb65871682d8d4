"""One live producer per topic (R-CORE-6): real processes, killed, stopped and fenced."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

import penstock
from penstock.client.client import Client, connect
from penstock.client.connection.routes import GROUPS
from penstock.client.errors import DeliveryFailed
from penstock.model.errors import PenstockError, TopicClaimed
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.processes.cluster import Cluster
from tests.kit.runs.tiers import IS_SOAK
from tests.system.test_failover_clients import coordinator

SECONDS_MAX = 90
PARTITIONS = 3
# Rivals in a cluster: for how long, how long nothing dies, and how long a broker is gone.
RIVALRY_S, QUIET_S, DEAD_S = (18, 2, 4) if IS_SOAK else (13, 1, 3)
HOLDER = """
import sys, penstock
with penstock.connect_blocking(sys.argv[1], client_name="holder") as mq:
    with mq.producer(exclusive="refuse") as producer:
        number = 0
        while True:
            producer.publish("ledger", b"%d" % number)
            if number == 0:
                print("holds", flush=True)
            number += 1
"""


@contextlib.contextmanager
def holder(bootstrap: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the topic and writes to it all the time."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, bootstrap], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def read(mq: Client, partition: int = 0) -> dict[int, bytes]:
    """All messages of the partition, by offset."""
    found: dict[int, bytes] = {}
    end = await mq.admin.find_offset("ledger", partition, "latest")
    async with mq.consumer() as consumer:
        await consumer.assign([("ledger", partition)])
        while consumer.position(("ledger", partition)) < end:
            for message in await consumer.fetch(timeout_s=1):
                found[message.offset] = message.value or b""
    return found


async def values(mq: Client) -> list[bytes]:
    return list((await read(mq)).values())


async def test_the_next_one_gets_the_topic_when_the_holder_was_killed(tmp_path: Path) -> None:
    """R-CORE-6: with the name of the holder while it may live; and not before it is given up."""
    with BrokerProcess(tmp_path) as broker, holder(broker.address) as process:
        async with asyncio.timeout(SECONDS_MAX), connect(broker.address) as mq:
            async with mq.producer(exclusive="refuse") as producer:
                with pytest.raises(TopicClaimed, match=rf"'holder \(.*process {process.pid}\)'"):
                    await producer.publish("ledger", b"early")
            process.send_signal(signal.SIGKILL)
            refusals = 0
            async with mq.producer(exclusive="refuse") as producer:
                while True:
                    try:
                        await producer.publish("ledger", b"mine")
                        break
                    except TopicClaimed:
                        refusals += 1
                        await asyncio.sleep(0.1)
            assert refusals > 0, "it may have been about to come back"
            found = await values(mq)
            assert found[-1] == b"mine"
            assert b"early" not in found


async def test_the_older_is_fenced(tmp_path: Path) -> None:
    """R-CORE-6: nothing of it is accepted once the newer was told that the topic is its own."""
    with BrokerProcess(tmp_path) as broker:
        async with asyncio.timeout(SECONDS_MAX), connect(broker.address) as mq:
            async with contextlib.AsyncExitStack() as stack:
                old = mq.producer(exclusive="refuse", linger_ms=0)
                await old.publish("ledger", b"old")

                async def go_on() -> None:
                    while True:
                        await old.publish("ledger", b"old")

                writing = asyncio.create_task(go_on())
                new = await stack.enter_async_context(mq.producer(exclusive="fence"))
                await new.claim("ledger")
                end = await mq.admin.find_offset("ledger", 0, "latest")
                with pytest.raises(TopicClaimed, match="taken over by 'penstock"):
                    await writing
                for number in range(3):
                    receipt = await new.publish("ledger", b"new")
                    assert receipt.offset == end + number
                with pytest.raises(TopicClaimed):
                    await old.publish("ledger", b"late")
                with pytest.raises(TopicClaimed, match="takes messages of one producer alone"):
                    await mq.publish("ledger", b"anybody")
                await old.close()
            assert await values(mq) == [b"old"] * end + [b"new"] * 3


async def test_a_claim_outlives_the_broker(tmp_path: Path) -> None:
    """The holder goes on as if nothing had happened, and another one is still refused."""
    broker = BrokerProcess(tmp_path)
    with broker:
        async with asyncio.timeout(SECONDS_MAX), connect(broker.address) as mq:
            async with mq.producer(exclusive="refuse") as producer:
                await producer.publish("ledger", b"1")
                broker.kill()
                broker.start()
                await producer.publish("ledger", b"2")
                async with mq.producer(exclusive="refuse") as other:
                    with pytest.raises(TopicClaimed):
                        await other.publish("ledger", b"3")
            # Given up in an orderly way, it is free at once: nobody is refused.
            async with mq.producer(exclusive="refuse") as other:
                await other.publish("ledger", b"4")
            assert await values(mq) == [b"1", b"2", b"4"]


async def test_a_producer_that_slept_wakes_up_fenced(tmp_path: Path) -> None:
    """R-CORE-6: nothing of it is taken that it had ready."""
    with BrokerProcess(tmp_path) as broker, holder(broker.address) as process:
        async with asyncio.timeout(SECONDS_MAX), connect(broker.address) as mq:
            process.send_signal(signal.SIGSTOP)
            async with mq.producer(exclusive="fence") as producer:
                await producer.claim("ledger")
                end = await mq.admin.find_offset("ledger", 0, "latest")
                await producer.publish("ledger", b"mine")
                process.send_signal(signal.SIGCONT)
                assert await asyncio.to_thread(process.wait, 20) == 1, "it ended with an error"
                await producer.publish("ledger", b"mine")
            assert (await values(mq))[end:] == [b"mine", b"mine"]


async def test_kafkas_producers_are_refused(tmp_path: Path) -> None:
    """See docs/divergence.md: they cannot claim."""
    with BrokerProcess(tmp_path) as broker:
        async with asyncio.timeout(SECONDS_MAX), connect(broker.address) as mq:
            await mq.admin.create_topic("ledger", 1, {"exclusive_producer": "yes"})
            outcomes: list[object] = []
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.address})
            producer.produce("ledger", b"x", on_delivery=lambda error, _: outcomes.append(error))
            await asyncio.to_thread(producer.flush, 20)
            [error] = outcomes
            assert isinstance(error, confluent_kafka.KafkaError)
            assert error.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
            assert await values(mq) == []


async def test_the_command_claims(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, holder(broker.address):

        async def produce(how: str) -> tuple[int | None, str]:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "penstock.cli", "produce", "ledger"),
                *("--exclusive", how, "--bootstrap", broker.address),
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            _, said = await process.communicate(b"by hand\n")
            return process.returncode, said.decode()

        code, said = await produce("refuse")
        assert code == 1
        assert "is claimed by 'holder" in said
        assert "Traceback" not in said
        code, said = await produce("fence")
        assert code == 0, said
        assert "1 message acknowledged" in said


# --- clusters ------------------------------------------------------------------------------------


class Rivals:
    """Producers that take a topic from each other all the time, and note when."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.claimed: list[tuple[float, str]] = []
        """When whom was told that the topic is his."""
        self.accepted: dict[str, set[tuple[int, int]]] = {}
        self._next = 0

    async def run(self, until_s: float) -> None:
        """Two at a time, so that the older always goes on while the newer comes."""
        holders: list[asyncio.Task[None]] = []
        while time.monotonic() < until_s:
            self._next += 1
            name = f"p{self._next}"
            is_told = asyncio.Event()
            holders.append(asyncio.create_task(self._hold(name, is_told, until_s)))
            waiting = asyncio.create_task(is_told.wait())
            await asyncio.wait([waiting, holders[-1]], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            await asyncio.sleep(0.2)
        await asyncio.gather(*holders)

    async def _hold(self, name: str, is_told: asyncio.Event, until_s: float) -> None:
        self.accepted[name] = set()
        numbers = iter(range(10**6))
        async with connect(self._bootstrap, client_name=name) as mq:
            producer = mq.producer(exclusive="fence", linger_ms=0, delivery_timeout_ms=20_000)
            try:
                await producer.claim("ledger")
                self.claimed.append((time.monotonic(), name))
                is_told.set()
                while time.monotonic() < until_s:
                    for number in numbers:
                        receipt = await producer.publish(
                            "ledger", f"{name}:{number}".encode(), partition=number % PARTITIONS
                        )
                        self.accepted[name].add((receipt.partition, receipt.offset))
                        if number % 20 == 19:
                            break
            except (TopicClaimed, DeliveryFailed):
                """Another one has it now."""
            finally:
                with contextlib.suppress(PenstockError):
                    await producer.abort()


@pytest.mark.parametrize("replicas", [pytest.param(1, marks=pytest.mark.soak), 3])
async def test_leaders_and_coordinators_die_while_producers_fence_each_other(
    tmp_path: Path, replicas: int
) -> None:
    """In every partition, all batches of one claim come before all of the next; what was
    acknowledged is there."""
    with Cluster(tmp_path) as cluster:
        async with asyncio.timeout(SECONDS_MAX), connect(cluster.bootstrap) as mq:
            await mq.admin.create_topic(
                "ledger", PARTITIONS, {"exclusive_producer": "yes"}, replicas=replicas
            )
            rivals = Rivals(cluster.bootstrap)
            running = asyncio.create_task(rivals.run(time.monotonic() + RIVALRY_S))
            await asyncio.sleep(QUIET_S)
            first = await coordinator(mq, GROUPS)
            cluster.kill(first)
            await asyncio.sleep(DEAD_S)
            await asyncio.to_thread(cluster.start, first)
            await asyncio.sleep(QUIET_S)
            stopped = await coordinator(mq, GROUPS)
            cluster.stop(stopped)
            await asyncio.sleep(3)
            cluster.resume(stopped)
            await running
            order = [name for _, name in rivals.claimed]
            assert len(order) >= 5, "hardly anything was tested"
            for partition in range(PARTITIONS):
                names = {
                    offset: value.decode().partition(":")[0]
                    for offset, value in (await read(mq, partition)).items()
                }
                blocks = [name for name, _ in itertools.groupby(names.values())]
                assert blocks == [name for name in order if name in blocks], f"{partition}"
                for name, accepted in rivals.accepted.items():
                    offsets = [offset for where, offset in accepted if where == partition]
                    assert all(names.get(offset) == name for offset in offsets)


def test_the_blocking_client_claims_too(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path) as broker,
        penstock.connect_blocking(broker.address) as mq,
        mq.producer(exclusive="refuse") as producer,
        mq.producer(exclusive="refuse") as other,
    ):
        producer.claim("ledger")
        producer.send("ledger", b"a")
        producer.flush()
        with pytest.raises(TopicClaimed):
            other.claim("ledger")
