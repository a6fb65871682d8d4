"""Filters by a real broker and the public client (R-DEL-12): what comes, what is skipped, what is
refused, and that a kill in the middle changes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import penstock
from penstock import Client, Consumer, Message, Producer
from penstock.client.consuming.settings import ConsumerSettings
from penstock.client.producing.producer import Compression
from penstock.client.sharing.settings import SharedConsumerSettings
from penstock.model.errors import InvalidFilter
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.processes.cluster import Cluster
from tests.system.clients import PATIENCE_S, read, tidy_client, until
from tests.system.test_cli import Commands

REGIONS = ("eu", "us", "asia")
# A broker that looked to the end before it serves others would let one or two in.
SERVED_MIN = 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


async def publish(
    mq: Client, topic: str, numbers: range, compression: Compression = "none"
) -> None:
    """Message n: key order-n, tag even or odd, n as its price, a region."""
    async with mq.producer(compression=compression, batch_bytes=4096) as producer:
        for number in numbers:
            await producer.send(
                topic,
                b"%d" % number,
                b"order-%d" % number,
                tag="odd" if number % 2 else "even",
                headers=[("price", b"%d" % number), ("region", REGIONS[number % 3].encode())],
            )


def numbers_of(messages: list[Message]) -> list[int]:
    return [int(message.value or b"") for message in messages]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_only_what_passes_comes(broker: BrokerProcess, compression: Compression) -> None:
    """R-DEL-12: tags, key equality and prefix, and an expression over headers, key, tag and time;
    and what comes has everything that was published."""
    topic = f"kinds-{compression}"
    cases: list[tuple[ConsumerSettings, list[int]]] = [
        ({"tags": "odd"}, list(range(1, 1000, 2))),
        ({"tags": ["odd", "even"]}, list(range(1000))),
        ({"key": b"order-77"}, [77]),
        ({"key_prefix": b"order-99"}, [99, *range(990, 1000)]),
        ({"filter": "price BETWEEN 10 AND 12 OR price > 997"}, [10, 11, 12, 998, 999]),
        (
            {"filter": "region = 'eu' AND key LIKE '%5' AND tag <> 'even' AND timestamp > 0"},
            list(range(15, 1000, 30)),
        ),
        ({"filter": "NOT (region IN ('eu', 'us'))", "tags": "odd"}, list(range(5, 1000, 6))),
    ]
    async with tidy_client(broker.address) as mq:
        await publish(mq, topic, range(1000), compression)
        for settings, expected in cases:
            async with mq.consumer(topic, **settings) as consumer:
                messages = await read(consumer, len(expected))
            assert numbers_of(messages) == expected, settings
            for message in messages:
                number = int(message.value or b"")
                assert message.offset == number
                assert message.key == b"order-%d" % number
                assert message.tag == ("odd" if number % 2 else "even")
                assert dict(message.headers)["price"] == message.value


async def test_a_kafka_client_sets_the_tag_itself(broker: BrokerProcess) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address})
    for number in range(10):
        headers = {"penstock-tag": "paid" if number == 7 else "open", "price": str(number)}
        producer.produce("from-kafka", str(number), headers=headers)
    assert producer.flush(PATIENCE_S) == 0
    async with tidy_client(broker.address) as mq:
        cases: list[ConsumerSettings] = [
            {"tags": "paid"},
            {"filter": "tag = 'paid' AND price >= 7"},
        ]
        for settings in cases:
            async with mq.consumer("from-kafka", **settings) as consumer:
                [message] = await read(consumer, 1)
            assert (message.value, message.tag) == (b"7", "paid")


async def test_a_group_moves_past_what_it_skips(broker: BrokerProcess) -> None:
    """R-DEL-12: skipped messages advance the group, also when nothing passes for long."""
    async with tidy_client(broker.address) as mq:
        await publish(mq, "skipping", range(500))
        async with mq.subscribe("skipping", group="nobody", tags="no such tag") as consumer:
            reading = asyncio.create_task(consumer.fetch())
            await committed(consumer, 500)
            for first in range(500, 800, 100):  # while it waits
                await publish(mq, "skipping", range(first, first + 100))
                await committed(consumer, first + 100)
            reading.cancel()
        assert [each.lag for each in await mq.admin.group_lag("nobody")] == [0]
        async with mq.subscribe("skipping", group="nobody") as consumer:
            assert consumer.position(("skipping", 0)) == 800


async def committed(consumer: Consumer, offset: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await consumer.committed(("skipping", 0)) != offset:
            await asyncio.sleep(0.01)


async def test_what_was_not_acknowledged_comes_again_and_nothing_else(
    broker: BrokerProcess,
) -> None:
    """R-DEL-12, R-DEL-10: between two that pass there are others, which do not matter."""
    async with tidy_client(broker.address) as mq:
        await publish(mq, "again", range(100))
        settings: ConsumerSettings = {"group": "billing", "filter": "price / 10 * 10 = price"}
        async with mq.subscribe("again", **settings) as consumer:
            messages = await read(consumer, 10)
            assert numbers_of(messages) == list(range(0, 100, 10))
            for message in (*messages[:4], messages[6]):
                await message.ack()
        async with mq.subscribe("again", **settings) as consumer:
            assert consumer.position(("again", 0)) == 40, "nine skipped ones after 30 as well"
            messages = await read(consumer, 6)
            assert numbers_of(messages) == list(range(40, 100, 10))
            for message in messages:
                await message.ack()
        assert [each.lag for each in await mq.admin.group_lag("billing")] == [0]


async def test_a_filter_may_wait_for_the_one_that_passes(broker: BrokerProcess) -> None:
    """R-DEL-6: long polls, and the way from publish to reader is short."""
    async with tidy_client(broker.address) as mq:
        await mq.admin.create_topic("rare")
        async with mq.subscribe("rare", key=b"order-999") as consumer:
            reading = asyncio.create_task(read(consumer, 1))
            await publish(mq, "rare", range(999))
            await asyncio.sleep(0.3)
            assert not reading.done()
            published = time.perf_counter()
            await publish(mq, "rare", range(999, 1000))
            assert numbers_of(await reading) == [999]
            assert time.perf_counter() - published < PATIENCE_S / 4


def test_without_an_event_loop(broker: BrokerProcess) -> None:
    with penstock.connect_blocking(broker.address) as mq:
        with mq.producer() as producer:
            for number in range(10):
                producer.send("blocking", b"%d" % number, tag="odd" if number % 2 else "even")
        mq.publish("blocking", b"10", tag="last")
        with mq.consumer("blocking", tags=["odd", "last"]) as consumer:
            found: list[Message] = []
            while len(found) < 6:
                found += consumer.fetch(timeout_s=PATIENCE_S)
        assert numbers_of(found) == [1, 3, 5, 7, 9, 10]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("price > ", r"at character 9: expected a value after '>'.*\n  price > \n          \^"),
        ("(" * 4000, "nested more than 32 deep"),
        (" OR ".join(["a = 1"] * 200), "more than 256 names"),
        ("a = '" + "x" * 5000 + "'", "4096 is the limit"),
        ("a LIKE 'x' ESCAPE ''", "ESCAPE takes one character"),
        ("\x1b]0;evil\x07 = 1", r"no use for U\+001B"),
    ],
)
async def test_a_wrong_filter_is_refused_with_the_place(
    broker: BrokerProcess, expression: str, message: str
) -> None:
    """R-DEL-12: a bad expression is refused with the position of the error."""
    async with tidy_client(broker.address) as mq:
        await publish(mq, "refused", range(1))
        async with mq.subscribe("refused", filter=expression) as consumer:
            with pytest.raises(InvalidFilter, match=message):
                await consumer.fetch()


async def published_while(producer: Producer, readings: Sequence[asyncio.Task[Any]]) -> int:
    """How many messages, one after another, are acknowledged before the first reading ends."""
    count = 0
    while not any(reading.done() for reading in readings):
        await producer.publish("quick", b"x")
        count += 1
    return count


async def test_an_expensive_filter_does_not_hold_up_the_others(broker: BrokerProcess) -> None:
    """R-DEL-12: seconds of looking by the dearest filter that is allowed, for several clients;
    meanwhile another one is served."""
    dear = " OR ".join(["region LIKE '%a_a_a_b%'"] * 8)
    async with penstock.connect(broker.address) as mq, mq.producer(linger_ms=0) as producer:
        async with mq.producer(compression="zstd") as filling:
            for _ in range(16_000):
                await filling.send("dear", b"", headers=[("region", b"a" * 400)])
            await filling.send("dear", b"last", headers=[("region", b"a a a b")])
        await producer.publish("quick", b"first")
        async with penstock.connect(broker.address) as one, penstock.connect(broker.address) as two:
            consumers = [each.consumer("dear", filter=dear) for each in (one, two, one, two)]
            readings = [asyncio.create_task(each.fetch()) for each in consumers]
            await until(lambda: all(each.partitions for each in consumers))
            assert await published_while(producer, readings) > SERVED_MIN
            async with asyncio.timeout(6 * PATIENCE_S):
                found = await asyncio.gather(*readings)
            assert [[each.value for each in messages] for messages in found] == [[b"last"]] * 4


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_a_shared_group_gets_what_passes(
    broker: BrokerProcess, compression: Compression
) -> None:
    """R-DEL-12, R-DEL-3: each once, whoever asks; and the group moves past the others."""
    topic = f"jobs-{compression}"
    settings: SharedConsumerSettings = {
        "group": f"workers-{compression}",
        "tags": "odd",
        "key_prefix": b"order-",
        "filter": "price >= 100 AND region <> 'eu' AND timestamp > 0",
    }
    expected = [number for number in range(101, 3000, 2) if number % 3]
    async with tidy_client(broker.address) as mq:
        await publish(mq, topic, range(3000), compression)
        found: list[int] = []
        async with (
            mq.share(topic, **settings) as one,
            mq.share(topic, **settings) as two,
        ):
            async with asyncio.timeout(3 * PATIENCE_S):
                while len(found) < len(expected):
                    for consumer in (one, two):
                        for message in await consumer.fetch(100, timeout_s=0.2):
                            found.append(int(message.value or b""))
                            await message.ack()
        assert sorted(found) == expected
        async with mq.share(topic, **settings) as consumer:
            await publish(mq, topic, range(3000, 3100), compression)
            [message, *_] = await consumer.fetch(timeout_s=PATIENCE_S)
            assert message.value == b"3001"


async def test_an_expensive_filter_of_a_shared_group_does_not_hold_up_the_others(
    broker: BrokerProcess,
) -> None:
    """R-DEL-12: seconds of looking, for a group of several; meanwhile others are served."""
    dear = " OR ".join(["region LIKE '%a_a_a_b%'"] * 7)
    async with penstock.connect(broker.address) as mq, mq.producer(linger_ms=0) as producer:
        async with mq.producer(compression="zstd") as filling:
            for _ in range(4_000):
                await filling.send("dear-jobs", b"", headers=[("region", b"a" * 4_000)])
            await filling.send("dear-jobs", b"last", headers=[("region", b"a a a b")])
        await producer.publish("quick", b"first")
        async with (
            tidy_client(broker.address) as other,
            other.share("dear-jobs", group="workers", filter=dear) as consumer,
        ):
            reading = asyncio.create_task(consumer.fetch(timeout_s=6 * PATIENCE_S))
            await until(lambda: bool(consumer.partitions))
            assert await published_while(producer, [reading]) > SERVED_MIN
            assert [message.value for message in await reading] == [b"last"]


async def test_many_filters_and_wrong_ones_leave_nothing_behind(broker: BrokerProcess) -> None:
    """R-DEL-12: what a broker keeps of filters is bounded."""
    async with tidy_client(broker.address) as mq:
        await publish(mq, "many", range(10))
        await ask_many(mq, range(100))
        before_bytes = broker.resident_bytes()
        await ask_many(mq, range(100, 600))
        assert broker.resident_bytes() - before_bytes < 64 << 20


async def ask_many(mq: Client, numbers: range) -> None:
    for number in numbers:
        terms = " OR ".join([f"price = {number}"] * 60)
        async with mq.consumer("many", filter=terms, max_wait_ms=1) as consumer:
            if number < 10:
                assert numbers_of(await consumer.fetch()) == [number]
            else:
                await consumer.fetch(timeout_s=0.005)


async def test_a_kill_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    """R-DEL-12, R-STO-2: each message that passes once and in order, through two kills."""
    expected = [number for number in range(6000) if number % 3 == 1]
    found: list[int] = []
    with BrokerProcess(tmp_path) as process:
        async with penstock.connect(process.address) as mq:
            publishing = asyncio.create_task(publish(mq, "killed", range(6000)))
            async with mq.consumer("killed", filter="region = 'us'", max_wait_ms=200) as consumer:
                for end in (300, 1000, len(expected)):
                    found += numbers_of(await read(consumer, end - len(found)))
                    if end < len(expected):
                        process.kill()
                        process.start()
            await publishing
    assert found == expected


async def test_leaders_that_die_change_nothing(tmp_path: Path) -> None:
    """R-DEL-12, R-REP-2: a new leader goes on where the client is, and with the same filter."""
    expected = [number for number in range(4000) if number % 3 == 1]
    found: list[int] = []
    with Cluster(tmp_path) as cluster:
        async with penstock.connect(cluster.bootstrap) as mq, asyncio.timeout(6 * PATIENCE_S):
            await mq.admin.create_topic("led", 1, replicas=3)
            publishing = asyncio.create_task(publish(mq, "led", range(4000)))
            async with mq.consumer("led", filter="region = 'us'", max_wait_ms=200) as consumer:
                found += numbers_of(await read(consumer, 300))
                [partition] = (await mq.admin.describe_topic("led")).partitions
                cluster.kill(partition.leader)
                async for message in consumer:
                    found.append(int(message.value or b""))
                    if len(found) == len(expected):
                        break
            await publishing
    assert found == expected


def test_by_the_command_line(broker: BrokerProcess) -> None:
    """R-DEL-12: `penstock produce --tag` and `penstock consume --filter`, and what is wrong is
    pointed at."""
    commands = Commands(broker.address)
    for tag in ("paid", "open"):
        given = "".join(f"{tag}-{number}:{number}\n" for number in range(5)).encode()
        commands.run("produce", "lines", "--tag", tag, "--key-separator", ":", given=given)

    def consume(*words: str, code: int = 0) -> tuple[bytes, str]:
        return commands.run("consume", "lines", "--until-end", *words, code=code)

    assert consume("--tag", "paid")[0] == b"0\n1\n2\n3\n4\n"
    assert consume("--key-prefix", "open-", "--filter", "key LIKE '%3'")[0] == b"3\n"
    assert consume("--key", "paid-2")[0] == b"2\n"
    assert consume("--filter", "tag = 'nobody'", "--group", "billing")[0] == b""
    assert consume("--group", "billing")[0] == b"", "it has gone past all of them"
    _, error = consume("--filter", "key LIKE 3", code=1)
    assert error == (
        "error: The filter is wrong at character 10: expected a pattern in quotes (as 'eu-%') after"
        " 'LIKE', and found '3'.\n"
        "  key LIKE 3\n"
        "           ^\n"
    )
