"""Push with real processes: slow, stopped, killed and hostile clients.

R-DEL-6, R-DEL-7, R-DEL-8.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import penstock
from penstock import Client
from penstock.client.admin.clients import ClientStatus
from penstock.client.reading.pushed import PushedSource
from penstock.model.errors import InvalidCredit, PenstockError, TooManySubscriptions, UnknownStream
from penstock.model.limits import PUSH_STREAMS_PER_CONNECTION_MAX
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.frame import ANSWER_BIT, ERROR_TYPE, encode_head
from tests.kit.broker.push_client import pushed, settled
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.processes.cluster import Cluster
from tests.system.clients import PATIENCE_S, publish_numbers, read_numbers

MIB = 1 << 20
ROOT = Path(__file__).parents[3]
# So that a stopped client is noticed in a second.
IMPATIENT = ("push_timeout_ms=300", "push_retry_ms=100")


class ConsumerProcess:
    """`pushed_consumer`, and what it has written."""

    def __init__(
        self,
        address: str,
        name: str,
        folder: Path,
        *,
        module: str = "pushed_consumer",
        words: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._output = folder / f"{name}.txt"
        command = [sys.executable, "-m", f"tests.system.delivery.{module}", address]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, *(words or ("orders", "billing", name))], stdout=output, cwd=ROOT
            )

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def numbers(self) -> list[int]:
        whole, _, _ = self._output.read_text().rpartition("\n")
        return [int(line) for line in whole.splitlines()]


@contextlib.contextmanager
def consumer_process(address: str, name: str, folder: Path) -> Iterator[ConsumerProcess]:
    process = ConsumerProcess(address, name, folder)
    try:
        yield process
    finally:
        process.end()


async def client_when(
    mq: Client, name: str, condition: Callable[[ClientStatus], bool]
) -> ClientStatus:
    """The client's record, as soon as it is as it should be."""
    seen: list[ClientStatus] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = await mq.clients.list()
                seen = [client for client in found.clients if client.name == name]
                for client in seen:
                    if condition(client):
                        return client
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{name} is not as it should be: {seen}") from None


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_slow_consumer_is_not_overrun_and_slows_nobody(tmp_path: Path) -> None:
    """R-DEL-6: a hundred times slower than its producer: its window holds, the broker's memory is
    flat, and another consumer gets everything meanwhile."""
    count, window = 60_000, 500
    with BrokerProcess(tmp_path) as broker:
        async with (
            penstock.connect(broker.address, client_name="slow") as slow_client,
            penstock.connect(broker.address, client_name="fast") as mq,
        ):
            await mq.admin.create_topic("orders", 1, {"durability": "os"})
            await mq.publish("orders", b"first")
            taken: list[int] = []
            sent = 0

            async def read_slowly() -> None:
                async for message in slow_client.subscribe(
                    "orders", push=True, push_messages=window
                ):
                    taken.append(message.offset)
                    while sent < 100 * len(taken):
                        await asyncio.sleep(0.01)

            async def read_all() -> None:
                read = 0
                async with mq.subscribe("orders", push=True) as consumer:
                    async for messages in consumer.batches():
                        read += len(messages)
                        if read > count:
                            return

            slow = asyncio.create_task(read_slowly())
            await until(lambda: len(taken) == 1)
            before = broker.resident_bytes()
            fast = asyncio.create_task(read_all())
            async with mq.producer() as producer:
                for _ in range(count):
                    await producer.send("orders", b"x" * 1000)
                    sent += 1
            async with asyncio.timeout(60):
                await fast
            record = await client_when(mq, "slow", lambda client: client.state == "slow")
            [stream] = record.streams
            # What was taken when the last credit was given, the credit, and a batch of overdraft.
            assert stream.delivered + stream.in_flight < len(taken) + 3 * window + 1100
            grown = broker.resident_bytes() - before
            assert grown < 24 * MIB, f"{grown / MIB:.1f} MiB more"
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            assert taken == list(range(len(taken)))


async def test_a_stopped_consumer_is_parked_and_goes_on_when_it_lives_again(
    tmp_path: Path,
) -> None:
    """R-DEL-8: timeout queue, dead-letter queue, resume; no message is lost."""
    with (
        BrokerProcess(tmp_path / "data", "push_timeout_ms=300", "push_retry_ms=3000") as broker,
        consumer_process(broker.address, "stopped", tmp_path) as consumer,
    ):
        async with penstock.connect(broker.address, client_name="test") as mq:
            await publish_numbers(mq, "orders", range(100))
            await until(lambda: consumer.numbers == list(range(100)))
            await client_when(mq, "stopped", lambda client: client.state == "alive")
            consumer.signal(signal.SIGSTOP)
            await publish_numbers(mq, "orders", range(100, 200))
            record = await client_when(mq, "stopped", lambda client: client.state == "slow")
            assert record.streams[0].state == "timeout"
            record = await client_when(mq, "stopped", lambda client: client.state == "parked")
            assert record.streams[0].reason == "The client left a delivery unanswered twice."
            assert record.streams[0].parked_at_ms is not None
            delivered = record.streams[0].delivered
            await publish_numbers(mq, "orders", range(200, 300))
            record = await client_when(mq, "stopped", lambda client: client.state == "parked")
            assert record.streams[0].delivered == delivered
            consumer.signal(signal.SIGCONT)
            await until(lambda: len(consumer.numbers) >= 300)
            assert consumer.numbers == list(range(300))
            await client_when(mq, "stopped", lambda client: client.state == "alive")


async def test_a_client_that_answers_no_ping_is_lost_in_bounded_time(tmp_path: Path) -> None:
    """R-DEL-7: marked, and removed from all it had."""
    patience = ("idle_ping_ms=500", "ping_timeout_ms=500")
    with (
        BrokerProcess(tmp_path / "data", *patience) as broker,
        consumer_process(broker.address, "stopped", tmp_path) as consumer,
    ):
        async with penstock.connect(broker.address, client_name="test") as mq:
            await publish_numbers(mq, "orders", range(10))
            await until(lambda: len(consumer.numbers) == 10)
            consumer.signal(signal.SIGSTOP)
            lost = await client_when(mq, "stopped", lambda client: client.state == "lost")
            assert lost.lost_at_ms is not None
            # Half a second of silence, half a second for the answer, two looks a second apart; and
            # not the minute that it is unless told otherwise.
            assert lost.lost_at_ms - lost.heard_at_ms < PATIENCE_S * 1000
            assert lost.reason == "it did not answer a ping"
            assert lost.streams == ()
            # It comes back as anybody does.
            consumer.signal(signal.SIGCONT)
            await publish_numbers(mq, "orders", range(10, 20))
            await until(lambda: set(consumer.numbers) == set(range(20)))


async def test_a_client_killed_in_the_middle_of_a_push_is_lost_and_its_messages_are_not(
    tmp_path: Path,
) -> None:
    """R-DEL-7: the next member of the group goes on where it had come to."""
    with BrokerProcess(tmp_path / "data") as broker:
        async with penstock.connect(broker.address, client_name="test") as mq:
            await mq.admin.create_topic("orders")
            with consumer_process(broker.address, "first", tmp_path) as first:
                publishing = asyncio.create_task(publish_numbers(mq, "orders", range(19_000)))
                await until(lambda: len(first.numbers) > 1000)
                first.signal(signal.SIGKILL)
                lost = await client_when(mq, "first", lambda client: client.state == "lost")
                assert lost.streams == ()
                await publishing
                await publish_numbers(mq, "orders", range(19_000, 20_000))
                with consumer_process(broker.address, "second", tmp_path) as second:
                    await until(lambda: 19_999 in second.numbers)
                    seen = set(first.numbers) | set(second.numbers)
                    assert seen == set(range(20_000))
                    assert second.numbers == sorted(second.numbers)


async def test_a_client_that_pulls_is_lost_too_when_it_is_killed(tmp_path: Path) -> None:
    """R-DEL-6, R-DEL-7: the same loop by long polling; its record says which groups it is in, it is
    marked, removed from its group, and the next member has its partition."""
    with BrokerProcess(tmp_path / "data") as broker:
        async with penstock.connect(broker.address, client_name="test") as mq:
            await mq.admin.create_topic("orders")
            pull = ("orders", "billing", "first", "pull")
            first = ConsumerProcess(broker.address, "first", tmp_path, words=pull)
            try:
                await publish_numbers(mq, "orders", range(100))
                await until(lambda: len(first.numbers) == 100)
                record = await client_when(mq, "first", lambda client: client.state == "alive")
                assert record.groups == ("billing",)
                assert record.streams == ()
            finally:
                first.end()
            lost = await client_when(mq, "first", lambda client: client.state == "lost")
            assert lost.reason == "It went without leaving its groups."
            async with mq.subscribe("orders", group="billing", push=True) as consumer:
                await publish_numbers(mq, "orders", range(100, 110))
                found: list[int] = []
                async with asyncio.timeout(PATIENCE_S):
                    async for message in consumer:
                        found.append(int(message.value or b""))
                        if found[-1] == 109:
                            break
                assert set(range(100, 110)) <= set(found)
                described = await mq.groups.describe("billing")
                assert [member.name for member in described.members] == ["test"]
            # Who leaves in order is not lost.
            found_clients = await mq.clients.list()
            assert [one.name for one in found_clients.clients if one.state == "lost"] == ["first"]
        async with penstock.connect(broker.address, client_name="later") as mq:
            found_clients = await mq.clients.list()
            assert [one.name for one in found_clients.clients if one.state == "lost"] == ["first"]


async def test_a_hostile_client_harms_only_itself(tmp_path: Path) -> None:
    """R-DEL-6, R-DEL-8: answers twice, late, to nothing, with rubbish; credit below nothing."""
    with BrokerProcess(tmp_path, *IMPATIENT) as broker:
        async with (
            penstock.connect(broker.address, client_name="test") as mq,
            pushed(broker.address) as hostile,
        ):
            await hostile.hello("hostile")
            await publish_numbers(mq, "orders", range(10))
            hostile.is_silent = True
            await hostile.open(messages=1_000_000)
            await until(lambda: len(hostile.deliveries) > 0)
            send = hostile.channel.connection.send
            for message_id in (0, 1, 2**32 - 1, hostile.deliveries[0].message_id):
                for kind in (pb.CALL_DELIVER | ANSWER_BIT, ERROR_TYPE, pb.CALL_FETCH | ANSWER_BIT):
                    for envelope in (b"", b"\xff" * 10):
                        send(encode_head(kind, message_id, envelope))
            for messages, size in ((-1, 0), (0, -1), (0, 0), (2**63 - 1, 1), (-(2**63), 2**63 - 1)):
                with pytest.raises(InvalidCredit):
                    await hostile.give(messages, size)
            with pytest.raises(UnknownStream):
                await hostile.give(1, 1, stream=2**32 - 1)
            await publish_numbers(mq, "orders", range(10, 20))
            await client_when(mq, "hostile", lambda client: client.state == "parked")
            for _ in range(1000):
                await hostile.resume()
            hostile.is_silent = False
            await hostile.resume()
            await settled(hostile)
            await until(lambda: len(hostile.values) == 20)
            # Others are served as ever.
            async with mq.subscribe("orders", push=True) as consumer:
                assert await read_numbers(consumer, 20) == list(range(20))


async def test_a_client_with_too_many_subscriptions_is_told_the_limit(tmp_path: Path) -> None:
    """R-DEL-7: 100,000 streams of one connection; those within the limit are served on."""
    with BrokerProcess(tmp_path) as broker:
        async with (
            penstock.connect(broker.address, client_name="test") as mq,
            pushed(broker.address) as greedy,
        ):
            await mq.admin.create_topic("orders")
            before = broker.resident_bytes()
            opened = 0
            refusals: list[PenstockError] = []

            def answered(error: PenstockError | None, *_: memoryview) -> None:
                nonlocal opened
                if error is None:
                    opened += 1
                else:
                    refusals.append(error)

            for number in range(100_000):
                request = pb.OpenPushRequest(
                    stream=number, topic="orders", credit_messages=1, credit_bytes=1
                )
                greedy.channel.start_call(
                    pb.CALL_OPEN_PUSH, request.SerializeToString(), (), answered
                )
                if number % 1000 == 0:
                    await greedy.channel.connection.drain()
                    await asyncio.sleep(0)
            async with asyncio.timeout(60):
                while opened + len(refusals) < 100_000:
                    await asyncio.sleep(0.01)
            assert opened == PUSH_STREAMS_PER_CONNECTION_MAX
            assert all(isinstance(error, TooManySubscriptions) for error in refusals)
            grown = broker.resident_bytes() - before
            assert grown < 100 * MIB, f"{grown / MIB:.1f} MiB more"
            await mq.publish("orders", b"one")
            await until(lambda: len(greedy.deliveries) == PUSH_STREAMS_PER_CONNECTION_MAX)


async def test_pushes_go_on_while_leaders_die(tmp_path: Path) -> None:
    """R-DEL-6, R-REP-2: each message from each partition once and in order, whoever leads."""
    with Cluster(tmp_path) as cluster:
        async with asyncio.timeout(90), penstock.connect(cluster.bootstrap) as mq:
            await mq.admin.create_topic("orders", 3, replicas=3)
            read: dict[int, list[int]] = {number: [] for number in range(3)}

            async def consume() -> None:
                async for message in mq.subscribe("orders", push=True):
                    read[message.partition].append(int(message.value or b""))
                    if sum(map(len, read.values())) == 900:
                        return

            consuming = asyncio.create_task(consume())
            async with mq.producer() as producer:
                for number in range(900):
                    await producer.send("orders", b"%d" % number, partition=number % 3)
                    if number == 450:
                        route = await mq._connection().routes.topic("orders", refresh=True)
                        cluster.kill(route.leaders[0])
                    if number % 10 == 0:
                        await asyncio.sleep(0.01)
            await consuming
            for partition, numbers in read.items():
                assert numbers == list(range(partition, 900, 3))


async def test_what_an_operator_parks_stays_so_whoever_leads(tmp_path: Path) -> None:
    """R-DEL-8: until it is resumed by an operator, or by the application; then everywhere."""
    with Cluster(tmp_path) as cluster:
        async with (
            asyncio.timeout(90),
            penstock.connect(cluster.bootstrap, client_name="parked") as client,
            penstock.connect(cluster.bootstrap, client_name="test") as mq,
        ):
            await mq.admin.create_topic("orders", 1, replicas=3)
            async with client.subscribe("orders", push=True) as consumer:

                async def parked() -> ClientStatus:
                    return await client_when(mq, "parked", lambda one: one.state == "parked")

                await client_when(mq, "parked", lambda one: bool(one.streams))
                assert await mq.clients.park("parked") == 1
                first = (await parked()).broker
                cluster.kill(first)
                await publish_numbers(mq, "orders", range(10))
                record = await parked()
                assert record.broker != first
                assert record.streams[0].reason == "An operator has parked it."
                # By its id, though others remember it by its name.
                assert await mq.clients.resume(str(record.id)) == 1
                assert await read_numbers(consumer, 10) == list(range(10))
                cluster.start(first)
                assert await mq.clients.park("parked") == 1
                await parked()
                await publish_numbers(mq, "orders", range(10, 20))
                consumer.resume()
                assert await read_numbers(consumer, 10) == list(range(10, 20))
                assert isinstance(consumer._fetcher.source, PushedSource)
                assert consumer._fetcher.source.telling is not None
                await consumer._fetcher.source.telling
                cluster.kill(record.broker)
                await publish_numbers(mq, "orders", range(20, 30))
                assert await read_numbers(consumer, 10) == list(range(20, 30))


def test_the_command_line_reads_what_is_pushed(tmp_path: Path) -> None:
    """R-DEL-6: and lists who is there (R-DEL-7)."""
    with BrokerProcess(tmp_path) as broker:
        at = ("--bootstrap", broker.address)
        penstock_cli("produce", "orders", *at, text="a\nb\nc\n")
        assert penstock_cli("consume", "orders", "--push", "--max", "3", *at) == "a\nb\nc\n"
        assert "penstock-cli" in penstock_cli("clients", "list", *at)
        refused = subprocess.run(
            [sys.executable, "-m", "penstock.cli", "clients", "park", "nobody", *at],
            capture_output=True,
            text=True,
            check=False,
        )
        assert refused.returncode == 1
        assert "No client 'nobody' is connected to any broker" in refused.stderr


async def test_an_operator_parks_and_resumes_from_the_command_line(tmp_path: Path) -> None:
    """R-DEL-7, R-DEL-8: one group of a client or all of them; the list says how it stands."""
    with (
        BrokerProcess(tmp_path / "data") as broker,
        consumer_process(broker.address, "billing-7", tmp_path) as consumer,
    ):
        at = ("--bootstrap", broker.address)
        async with penstock.connect(broker.address, client_name="test") as mq:
            await publish_numbers(mq, "orders", range(10))
            await until(lambda: len(consumer.numbers) == 10)

            async def command(*words: str) -> str:
                return await asyncio.to_thread(penstock_cli, "clients", *words, *at)

            await command("park", "billing-7", "--group", "another")
            await publish_numbers(mq, "orders", range(10, 20))
            await until(lambda: len(consumer.numbers) == 20)
            await command("park", "billing-7", "--group", "billing")
            await publish_numbers(mq, "orders", range(20, 30))
            listed = json.loads(await command("list", "--json"))
            [record] = [one for one in listed["clients"] if one["name"] == "billing-7"]
            assert (record["state"], record["groups"]) == ("parked", ["billing"])
            [stream] = record["streams"]
            assert (stream["state"], stream["topic"], stream["delivered"]) == (
                "parked",
                "orders",
                20,
            )
            table = await command("list")
            assert "An operator has parked it." in table
            assert consumer.numbers == list(range(20))
            await command("resume", "billing-7")
            await until(lambda: len(consumer.numbers) == 30)
            assert consumer.numbers == list(range(30))


async def test_a_stopped_client_with_much_credit_costs_the_broker_no_memory(
    tmp_path: Path,
) -> None:
    """R-DEL-6, R-DEL-8: a hundred megabytes wait for it in the log, and nowhere else."""
    with (
        BrokerProcess(tmp_path / "data") as broker,
        consumer_process(broker.address, "stopped", tmp_path) as consumer,
    ):
        async with penstock.connect(broker.address, client_name="test") as mq:
            await mq.admin.create_topic("ballast", 1, {"durability": "os"})
            await publish_numbers(mq, "orders", range(1))
            await until(lambda: len(consumer.numbers) == 1)
            ballast = b"0" * 100_000

            async def publish(topic: str) -> None:
                async with mq.producer() as producer:
                    for _ in range(1_000):
                        await producer.send(topic, ballast)

            await publish("ballast")  # what publishing itself takes is taken now
            consumer.signal(signal.SIGSTOP)
            before = broker.resident_bytes()
            await publish("orders")
            await client_when(mq, "stopped", lambda one: one.streams[0].in_flight > 0)
            grown = broker.resident_bytes() - before
            assert grown < 24 * MIB, f"{grown / MIB:.1f} MiB more"


def penstock_cli(*words: str, text: str = "") -> str:
    command = [sys.executable, "-m", "penstock.cli", *words]
    run = subprocess.run(
        command, input=text, capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    return run.stdout
