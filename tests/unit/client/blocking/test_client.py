"""The blocking facade: the same verbs in a thread without a loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import penstock.testing
from penstock.client.blocking.client import BlockingClient, connect_blocking
from penstock.client.producing.accumulator import Accumulator
from penstock.model.errors import (
    ClientClosed,
    ConnectionLost,
    InvalidConfig,
    InvalidRequest,
    OffsetOutOfRange,
    UnknownTopic,
)
from penstock.records import EncodedBatch, build_batch
from tests.kit.client.fake_broker import FakeBroker
from tests.kit.client.threads import own_threads


def test_publish_and_read(mq: BlockingClient) -> None:
    receipt = mq.publish("orders", b"0", b"key", headers=[("a", b"b")], timestamp_ms=1000)
    assert receipt.offset == 0
    with mq.producer() as producer:
        for number in range(1, 1000):
            producer.send("orders", b"%d" % number, timestamp_ms=number * 1000 + 1000)
        producer.flush()
        assert producer.publish("orders", b"1000").offset == 1000
    values = []
    with mq.subscribe("orders") as consumer:
        for message in consumer:
            values.append(int(message.value or b""))
            if len(values) == 500:
                break
        assert consumer.position(("orders", 0)) == 500
        while len(values) < 1001:
            values += [int(message.value or b"") for message in consumer.fetch(max_messages=100)]
        assert values == list(range(1001))
        consumer.seek(("orders", 0), 990)
        assert len(next(consumer.batches())) == 11
        consumer.seek_to_time(datetime.fromtimestamp(0, UTC))
        consumer.pause()
        assert consumer.fetch(timeout_s=0.001) == []
        consumer.resume(("orders", 0))
        (entry, *_) = consumer.fetch_columns()
        assert entry.columns.offsets[0] == 0


def test_several_threads_share_a_producer(broker: FakeBroker, mq: BlockingClient) -> None:
    """Batches are sealed by the loop while threads append: nothing is lost, order holds."""
    with mq.producer(linger_ms=0, batch_bytes=4096) as producer:

        def send(thread: int) -> None:
            for number in range(2000):
                producer.send("orders", b"%d %d" % (thread, number))

        threads = [threading.Thread(target=send, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    with mq.subscribe("orders") as consumer:
        while sum(map(len, seen.values())) < 6000:
            for message in consumer.fetch():
                sender, number = map(int, (message.value or b"").split())
                seen[sender].append(number)
    assert all(numbers == list(range(2000)) for numbers in seen.values())


def test_acknowledging(broker: FakeBroker, mq: BlockingClient) -> None:
    with mq.producer() as producer:
        for number in range(10):
            producer.send("orders", b"%d" % number)
    with mq.subscribe("orders", group="billing") as consumer:
        for message in consumer:
            message.ack()
            if message.offset == 4:
                break
    assert broker.offsets["billing"] == {("orders", 0): 5}
    with mq.subscribe("orders", group="billing") as consumer:
        (message,) = consumer.fetch(max_messages=1)
        assert message.offset == 5
        consumer.commit()
        assert consumer.committed(("orders", 0)) == 6
        consumer.assign([])
        assert consumer.partitions == []
    with mq.subscribe("orders") as consumer, pytest.raises(InvalidRequest, match="group="):
        consumer.fetch(max_messages=1)[0].ack()


def test_looking_at_the_cluster() -> None:
    """R-REP-7: as with asyncio."""
    with penstock.testing.broker() as address, connect_blocking(address) as mq:
        mq.admin.create_topic("orders", 2)
        found = mq.cluster.status()
        assert [(each.topic, each.leader) for each in found.partitions] == [("orders", 1)] * 2
        assert mq.cluster.status(moving_only=True).partitions == ()
        assert mq.cluster.elect_leaders() == {}
        changes: list[Callable[[], object]] = [
            lambda: mq.cluster.move("orders", [1]),
            lambda: mq.cluster.replicate("orders", 1),
            lambda: mq.cluster.drain(1),
            lambda: mq.cluster.add(1),
            lambda: mq.cluster.rebalance(dry_run=True),
        ]
        for change in changes:
            with pytest.raises(InvalidRequest, match="on its own"):
                change()


def test_administering(mq: BlockingClient) -> None:
    admin = mq.admin
    admin.create_topic("orders", 2, {"durability": "os"})
    admin.alter_topic("orders", {"retention_ms": "5"})
    admin.add_partitions("orders", 3)
    assert len(admin.describe_topic("orders").partitions) == 3
    assert [topic.name for topic in admin.list_topics()] == ["orders"]
    assert admin.find_offset("orders", 0, "latest") == 0
    admin.commit_offsets("billing", {("orders", 0): 5})
    assert admin.list_groups() == ["billing"]
    assert admin.group_offsets("billing") == {("orders", 0): 5}
    assert [(lag.committed, lag.end, lag.lag) for lag in admin.group_lag("billing")] == [(5, 0, 0)]
    assert admin.topic_groups("orders") == {"billing": {0: 5}}
    assert admin.removals("orders", 0) == []
    admin.delete_topic("orders")
    assert admin.deleted_topics() == admin.deleted_topics("orders") == []


def test_text_is_refused_with_advice(mq: BlockingClient) -> None:
    with mq.producer() as producer:
        for _ in range(2):
            with pytest.raises(TypeError, match=r"value\.encode\(\)"):
                producer.send("orders", "text")  # type: ignore[arg-type]
            producer.send("orders", b"good")


def test_who_means_a_shared_group_is_told_of_share(mq: BlockingClient) -> None:
    settings: dict[str, Any] = {"group": "workers", "shared": True}
    with pytest.raises(InvalidConfig, match=r"whole partitions: mq\.share\("):
        mq.subscribe("jobs", **settings)


def test_the_end(broker: FakeBroker) -> None:
    threads = own_threads()
    with connect_blocking(broker.address) as mq:
        assert own_threads() - threads
    assert own_threads() <= threads
    with pytest.raises(ClientClosed):
        mq.publish("orders", b"value")
    with pytest.raises(InvalidRequest), connect_blocking(broker.address) as mq:
        mq.subscribe()


def test_nobody_there() -> None:
    threads = own_threads()
    with pytest.raises(ConnectionLost):
        connect_blocking("127.0.0.1:1").__enter__()
    assert own_threads() <= threads


def test_acknowledgements_are_committed_when_the_client_ends(broker: FakeBroker) -> None:
    """R-DEL-10: in the loop of the manual, which does not close its consumer itself."""
    with connect_blocking(broker.address) as mq:
        mq.publish("orders", b"value")
        for message in mq.subscribe("orders", group="billing"):
            message.ack()
            break
    assert broker.offsets["billing"] == {("orders", 0): 1}
    with pytest.raises(ClientClosed):
        message.ack()


def test_acknowledgements_are_committed_in_time(broker: FakeBroker, mq: BlockingClient) -> None:
    mq.publish("orders", b"value")
    with mq.subscribe("orders", group="billing") as consumer:
        consumer.fetch()[0].ack()
        deadline_s = time.monotonic() + 5
        while consumer.committed(("orders", 0)) != 1:
            assert time.monotonic() < deadline_s


def test_the_loop_appends_under_the_lock_of_the_threads(
    mq: BlockingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch's builder is not for two threads at once: no way into it goes round the lock."""
    unlocked: list[bytes | None] = []
    try_append = Accumulator.try_append

    def watch(self: Accumulator, topic: str, *message: Any) -> bool:
        if not self.lock.locked():
            unlocked.append(message[1])
        return try_append(self, topic, *message)

    monkeypatch.setattr(Accumulator, "try_append", watch)
    with mq.producer(batch_bytes=1024) as producer:
        for number in range(100):
            producer.send("orders", b"%d" % number * 20)
    assert unlocked == []


def test_columns_out_and_in(mq: BlockingClient, broker: FakeBroker) -> None:
    broker.partition_count = 3
    with pytest.raises(UnknownTopic):
        mq.partition_count("orders")
    assert mq.partition_count("orders", create=True) == 3
    batch = EncodedBatch(1, 50, build_batch([(None, b"%d" % n) for n in range(50)]))
    with mq.producer() as producer:
        producer.send_batches("orders", [batch])
    offsets = [
        offset for columns in mq.read_range("orders", 1, 5, 50) for offset in columns.offsets
    ]
    assert offsets == list(range(5, 50))
    reading = mq.read_range("orders", 1, 0, 50)
    next(reading)
    with pytest.raises(OffsetOutOfRange):
        list(mq.read_range("orders", 1, 0, 51))


def test_a_range_that_nobody_reads_on(broker: FakeBroker) -> None:
    """Left in the middle, also beyond the end of the client, it leaves nothing behind."""
    with connect_blocking(broker.address) as mq:
        for _ in range(2):
            mq.publish("orders", bytes(100))
        reading = mq.read_range("orders", 0, 0, 2)
        assert next(reading).record_count == 2
    reading.close()  # type: ignore[attr-defined]
    with pytest.raises(ClientClosed):
        mq.read_range("orders", 0, 0, 2)
