"""The blocking facade against a real broker, from one thread and from several."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

import penstock
from penstock import DeliveryFailed
from penstock.model.errors import BatchTooLarge, ClientClosed, PenstockError
from tests.kit.client.threads import own_threads


def test_publish_and_read(penstock_broker: str, penstock_topic: str) -> None:
    """The main verbs, each waiting for its result."""
    partition = (penstock_topic, 0)
    with penstock.connect_blocking(penstock_broker) as mq:
        receipt = mq.publish(
            penstock_topic, b"0", key=b"k", headers=[("h", b"1")], timestamp_ms=1000
        )
        assert (receipt.offset, receipt.timestamp_ms) == (0, 1000)
        with mq.producer(compression="zstd") as producer:
            for number in range(1, 2000):
                producer.send(penstock_topic, b"%d" % number, timestamp_ms=1000 * (number + 1))
            producer.flush()
            assert producer.publish(penstock_topic, b"2000").offset == 2000
        with mq.consumer(penstock_topic) as consumer:
            values = []
            for message in consumer:
                values.append(int(message.value or b""))
                if len(values) == 1000:
                    break
            assert consumer.position(partition) == 1000
            while len(values) < 2001:
                values += [int(message.value or b"") for message in consumer.fetch(timeout_s=20)]
            assert values == list(range(2001))
            consumer.seek(partition, 1990)
            assert len(next(consumer.batches())) == 11
            consumer.seek_to_time(datetime.fromtimestamp(500, UTC))
            assert consumer.fetch(max_messages=1)[0].offset == 499
            consumer.pause()
            assert consumer.fetch(timeout_s=0.01) == []
            consumer.resume()
            consumer.seek(partition, "earliest")
            entry = consumer.fetch_columns(timeout_s=20)[0]
            assert entry.columns.offsets[0] == 0
            assert entry.columns.values.data[:4] == b"0123"


def test_groups_and_admin(penstock_broker: str, penstock_topic: str) -> None:
    """R-DEL-10: a group's place is kept and found again, from blocking code too."""
    group = f"group of {penstock_topic}"
    partition = (penstock_topic, 0)
    with penstock.connect_blocking(penstock_broker) as mq:
        mq.admin.create_topic(penstock_topic, partitions=2)
        mq.admin.add_partitions(penstock_topic, 3)
        assert len(mq.admin.describe_topic(penstock_topic).partitions) == 3
        for number in range(20):
            mq.publish(penstock_topic, b"%d" % number, partition=0)
        for message in mq.subscribe(penstock_topic, group=group):
            message.ack()
            if message.offset == 9:
                break
    with penstock.connect_blocking(penstock_broker) as mq:
        assert mq.admin.group_offsets(group) == {partition: 10}
        with mq.consumer(penstock_topic, group=group) as consumer:
            (message,) = consumer.fetch(max_messages=1)
            assert message.offset == 10
            consumer.commit()
            assert consumer.committed(partition) == 11
        mq.admin.delete_topic(penstock_topic)
        assert penstock_topic not in [topic.name for topic in mq.admin.list_topics()]


def test_several_threads_publish_through_one_producer(
    penstock_broker: str, penstock_topic: str
) -> None:
    """Each thread's messages are all there, in its order; each flush covers its own."""
    with penstock.connect_blocking(penstock_broker) as mq:
        mq.admin.create_topic(penstock_topic, partitions=4)
        with mq.producer(batch_bytes=4096, linger_ms=1) as producer:

            def work(sender: int) -> None:
                key = b"thread %d" % sender
                for number in range(2000):
                    producer.send(penstock_topic, b"%d" % number, key=key)
                    if number % 500 == 499:
                        producer.flush()
                assert producer.publish(penstock_topic, b"2000", key=key).offset >= 2000

            with ThreadPoolExecutor(6) as pool:
                list(pool.map(work, range(6)))
        seen: dict[bytes | None, list[int]] = defaultdict(list)
        with mq.consumer(penstock_topic) as consumer:
            while sum(map(len, seen.values())) < 6 * 2001:
                for message in consumer.fetch(timeout_s=20):
                    seen[message.key].append(int(message.value or b""))
    assert len(seen) == 6
    assert all(numbers == list(range(2001)) for numbers in seen.values())


def test_what_failed_is_told_to_a_thread_that_flushes(
    penstock_broker: str, penstock_topic: str
) -> None:
    """Two threads flush at once: what was not delivered is told to one of them, or to both."""
    with penstock.connect_blocking(penstock_broker) as mq:
        mq.admin.create_topic(penstock_topic, config={"batch_bytes_max": "1024"})
        producer = mq.producer(linger_ms=60_000)
        sent = threading.Barrier(2)

        def work() -> type[BaseException] | None:
            producer.send(penstock_topic, b"x" * 2000)
            sent.wait(20)
            try:
                producer.flush()
            except DeliveryFailed as error:
                return type(error.failures[0].cause)
            return None

        with ThreadPoolExecutor(2) as pool:
            outcomes = [pool.submit(work) for _ in range(2)]
            told = [outcome.result(20) for outcome in outcomes]
        assert BatchTooLarge in told
        producer.close()


def test_threads_acknowledge_what_one_thread_reads(
    penstock_broker: str, penstock_topic: str
) -> None:
    """R-DEL-10: one reads, others work and acknowledge, in whatever order they finish."""
    group = f"group of {penstock_topic}"
    with penstock.connect_blocking(penstock_broker) as mq:
        with mq.producer() as producer:
            for number in range(1000):
                producer.send(penstock_topic, b"%d" % number)
        with mq.consumer(penstock_topic, group=group) as consumer:
            work: queue.SimpleQueue[penstock.Message | None] = queue.SimpleQueue()

            def acknowledge() -> None:
                while (message := work.get()) is not None:
                    message.ack()

            with ThreadPoolExecutor(3) as pool:
                workers = [pool.submit(acknowledge) for _ in range(3)]
                for message in consumer:
                    work.put(message)
                    if message.offset == 999:
                        break
                for _ in workers:
                    work.put(None)
                for worker in workers:
                    worker.result(20)
        assert mq.admin.group_offsets(group) == {(penstock_topic, 0): 1000}


def test_after_the_end(penstock_broker: str, penstock_topic: str) -> None:
    """ClientClosed from everything that a closed client made, and no thread left."""
    threads = own_threads()
    with penstock.connect_blocking(penstock_broker) as mq:
        producer = mq.producer()
        producer.send(penstock_topic, b"value")
        consumer = mq.consumer(penstock_topic, group="group")
        (message,) = consumer.fetch(timeout_s=20)
        admin = mq.admin
    attempts: list[Callable[[], object]] = [
        lambda: mq.publish(penstock_topic, b"value"),
        mq.producer,
        lambda: mq.admin,
        lambda: producer.send(penstock_topic, b"value"),
        producer.flush,
        consumer.fetch,
        message.ack,
        admin.list_topics,
    ]
    for attempt in attempts:
        with pytest.raises(ClientClosed):
            attempt()
    assert own_threads() <= threads


def test_the_client_ends_under_readers_in_other_threads(
    penstock_broker: str, penstock_topic: str
) -> None:
    """Threads that wait for messages are told that the client is gone; none hangs."""
    with ThreadPoolExecutor(3) as pool:
        with penstock.connect_blocking(penstock_broker) as mq:
            mq.admin.create_topic(penstock_topic)
            waiting = [pool.submit(mq.consumer(penstock_topic).fetch) for _ in range(3)]
            time.sleep(0.05)
        for outcome in waiting:
            with pytest.raises(ClientClosed):
                outcome.result(20)


def test_nobody_there_is_said_quickly() -> None:
    threads = own_threads()
    started_s = time.monotonic()
    with (
        pytest.raises(PenstockError, match=r"127\.0\.0\.1:1.*refused"),
        penstock.connect_blocking("127.0.0.1:1"),
    ):
        pass
    assert time.monotonic() - started_s < 2
    assert own_threads() <= threads
