"""Brokers that restart, are killed, hang or go away, under producers and consumers at work."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import penstock
from penstock import DeliveryFailed
from penstock.model.errors import CorruptLog, TimedOut
from tests.kit.processes.brokers import BrokerProcess
from tests.system.clients import (
    PATIENCE_S,
    no_task_left,
    publish_numbers,
    read_numbers,
    tidy_client,
    until,
)


class Traffic:
    """Publishes numbers and reads them again, all the while, until told to stop."""

    def __init__(self) -> None:
        self.sent = 0
        self.seen: list[int] = []
        self._stopping = False

    async def publish(self, address: str) -> None:
        async with penstock.connect(address) as mq, mq.producer(linger_ms=1) as producer:
            while not self._stopping:
                await producer.send("orders", b"%d" % self.sent)
                self.sent += 1
                if self.sent % 20 == 0:
                    await asyncio.sleep(0.001)

    async def consume(self, address: str) -> None:
        async with penstock.connect(address) as mq, mq.consumer("orders") as consumer:
            while not self._stopping or len(self.seen) < self.sent:
                for message in await consumer.fetch(timeout_s=0.05):
                    self.seen.append(int(message.value or b""))

    async def run(self, address: str, disturb: Callable[[], Awaitable[None]]) -> None:
        with no_task_left():
            async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
                group.create_task(self.publish(address))
                group.create_task(self.consume(address))
                await until(lambda: len(self.seen) > 500)
                await disturb()
                goal = len(self.seen) + 500
                await until(lambda: len(self.seen) > goal)
                self._stopping = True


@pytest.mark.parametrize("act", [BrokerProcess.stop, BrokerProcess.kill])
async def test_a_restart_is_survived_by_producer_and_consumer(
    tmp_path: Path, act: Callable[[BrokerProcess], None]
) -> None:
    """R-PRO-2, R-CORE-5, R-STO-6: stopped in order or killed, and started again: both go on by
    themselves, nothing is lost, repeated or out of order."""
    with BrokerProcess(tmp_path, "topic_defaults.durability=os") as broker:

        async def disturb() -> None:
            await asyncio.to_thread(act, broker)
            await asyncio.to_thread(broker.start)

        traffic = Traffic()
        await traffic.run(broker.address, disturb)
    assert traffic.seen == list(range(traffic.sent))


async def test_a_group_goes_on_after_consumer_and_broker_are_gone(tmp_path: Path) -> None:
    """R-DEL-10, R-STO-6: what was committed survives a SIGKILL of the broker."""
    with BrokerProcess(tmp_path) as broker:
        async with tidy_client(broker.address) as mq:
            await publish_numbers(mq, "orders", range(100))
            async with mq.consumer("orders", group="billing") as consumer:
                assert await read_numbers(consumer, 40) == list(range(40))
                await consumer.commit()
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        async with (
            tidy_client(broker.address) as mq,
            mq.consumer("orders", group="billing") as consumer,
        ):
            assert await read_numbers(consumer, 60) == list(range(40, 100))


async def test_a_broker_that_is_gone_fails_deliveries_in_time_and_is_found_again(
    tmp_path: Path,
) -> None:
    """The delivery timeout holds, the error says what failed and why, and nothing is stuck."""
    with BrokerProcess(tmp_path) as broker:
        async with tidy_client(broker.address) as mq:
            producer = mq.producer(delivery_timeout_ms=300)
            await producer.publish("orders", b"0")
            await asyncio.to_thread(broker.kill)
            started_s = asyncio.get_running_loop().time()
            future = await producer.submit("orders", b"asked for")
            for _ in range(10):
                await producer.send("orders", b"lost")
            with pytest.raises(DeliveryFailed, match=r"10 messages.*orders-0") as raised:
                await producer.flush()
            assert 0.25 < asyncio.get_running_loop().time() - started_s < 3
            (failure,) = raised.value.failures
            assert isinstance(failure.cause, TimedOut)
            assert "refused" in str(failure.cause)
            with pytest.raises(TimedOut):
                await future
            await asyncio.to_thread(broker.start)
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    try:
                        await producer.publish("orders", b"1")
                        break
                    except TimedOut:
                        continue
            async with mq.consumer("orders") as consumer:
                assert await read_numbers(consumer, 2) == [0, 1]


async def test_a_broker_that_hangs_fails_deliveries_in_time(tmp_path: Path) -> None:
    """A stopped process keeps its connections and answers nothing: the time is kept anyway."""
    with BrokerProcess(tmp_path) as broker:
        async with tidy_client(broker.address) as mq:
            producer = mq.producer(delivery_timeout_ms=300)
            await producer.publish("orders", b"0")
            broker.process.send_signal(signal.SIGSTOP)
            try:
                started_s = asyncio.get_running_loop().time()
                await producer.send("orders", b"1")
                with pytest.raises(DeliveryFailed, match="may or may not have been written"):
                    await producer.flush()
                assert asyncio.get_running_loop().time() - started_s < 3
            finally:
                broker.process.send_signal(signal.SIGCONT)
            async with mq.consumer("orders") as consumer:
                assert await read_numbers(consumer, 1) == [0]


async def test_closing_a_group_consumer_without_a_broker_is_bounded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What could not be committed is named, and the program ends within seconds."""
    with BrokerProcess(tmp_path) as broker:
        async with tidy_client(broker.address) as mq:
            await publish_numbers(mq, "orders", range(10))
            consumer = mq.consumer("orders", group="billing")
            messages = await consumer.fetch(max_messages=7, timeout_s=PATIENCE_S)
            await asyncio.to_thread(broker.kill)
            for message in messages:
                await message.ack()
            started_s = asyncio.get_running_loop().time()
            await consumer.close()
            assert asyncio.get_running_loop().time() - started_s < 8
    assert "billing" in caplog.text
    assert "orders-0 at 7" in caplog.text


async def test_leaving_without_a_broker_is_quick(tmp_path: Path) -> None:
    """Cancelled while everything waits for a broker that is gone: no task, no warning is left."""
    with BrokerProcess(tmp_path) as broker:

        async def work() -> None:
            async with tidy_client(broker.address) as mq, mq.producer() as producer:
                await producer.publish("orders", b"0")
                await asyncio.to_thread(broker.kill)
                async with asyncio.TaskGroup() as group:
                    group.create_task(producer.publish("orders", b"1"))
                    group.create_task(producer.flush())
                    group.create_task(read_numbers(mq.consumer("orders"), 2))
                    group.create_task(mq.admin.describe_topic("orders"))

        working = asyncio.ensure_future(work())
        await asyncio.wait([working], timeout=1)
        assert not working.done()
        working.cancel()
        async with asyncio.timeout(2):
            with pytest.raises(asyncio.CancelledError):
                await working


async def test_a_flipped_bit_in_a_base_offset_is_not_handed_out(tmp_path: Path) -> None:
    """R-STO-6: a batch's base offset is outside its checksum; damage there is an error as well."""
    with penstock.testing.broker(data=str(tmp_path)) as address:
        async with penstock.connect(address) as mq:
            for number in range(3):
                await mq.publish("orders", b"%d" % number)
            (segment,) = (tmp_path / "topics" / "orders" / "0").glob("*.log")
            content = bytearray(segment.read_bytes())
            batch_bytes = len(content) // 3
            content[batch_bytes + 5] ^= 1  # offset 1 becomes 65537
            segment.write_bytes(content)
            async with mq.consumer("orders") as consumer:
                with pytest.raises(CorruptLog, match=r"offset 1 .*65537.*penstock inspect"):
                    await read_numbers(consumer, 3)
