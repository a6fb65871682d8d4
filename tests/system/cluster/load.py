"""Clients at work while a cluster is treated badly: librdkafka's and ours, as threads.

Producers send at a steady rate to every partition and record each message's fate; readers follow
the topic from its beginning. None of them is told of what goes wrong: getting over it is the
clients' own work, and what they complain of to their user is recorded. The invariants: what is told
to nobody by the end is of unknown fate; who is abandoned ends at once, and holds no connection.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import confluent_kafka

import penstock
from penstock.model.errors import PenstockError
from tests.kit.histories.messages import History, Sent

# A broker that hangs is given up after this. Every client has a default of half a minute or more,
# which is more than a test can wait.
ANSWER_MS = 3_000
DELIVERY_MS = 60_000
# Between two rounds of messages, one for each partition.
PAUSE_S = 0.01
END_S_MAX = 30.0
# How often a worker looks whether it is abandoned.
LOOK_S = 0.1

LIBRDKAFKA: dict[str, Any] = {
    "socket.timeout.ms": ANSWER_MS,
    "socket.connection.setup.timeout.ms": ANSWER_MS,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 1_000,
    "log_level": 0,
    # It gets over its errors by itself, or tells of a message.
    "error_cb": lambda error: None,
}


class Worker(ABC, threading.Thread):
    """One client in one thread; `finish` ends it, and says what it ended with."""

    def __init__(self, history: History, bootstrap: str, topic: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.history = history
        self.bootstrap = bootstrap
        self.topic = topic
        self.ending = threading.Event()
        self.abandoned = threading.Event()

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.history.complain(self.name, repr(error))

    @abstractmethod
    def work(self) -> None:
        """Until `ending` is set, and all is done then; or until `abandoned` is."""

    def finish(self) -> None:
        self.ending.set()
        self.join(END_S_MAX + DELIVERY_MS / 1000)
        assert not self.is_alive(), f"{self.name} does not end"

    def abandon(self) -> None:
        """Let it leave everything as it is: nobody looks at it any more."""
        self.abandoned.set()
        self.ending.set()

    def run_loop(self, work: Coroutine[Any, Any, None]) -> None:
        """Work of a client of asyncio."""
        asyncio.run(self._until_abandoned(work))

    async def _until_abandoned(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        while not self.abandoned.is_set() and not task.done():
            await asyncio.wait([task], timeout=LOOK_S)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()


class LibrdkafkaProducer(Worker):
    """Idempotent, acks=all."""

    def work(self) -> None:
        producer = confluent_kafka.Producer(
            {
                **LIBRDKAFKA,
                "bootstrap.servers": self.bootstrap,
                "client.id": self.name,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 500,
                "request.timeout.ms": ANSWER_MS,
                "message.timeout.ms": DELIVERY_MS,
            }
        )
        while not self.ending.is_set():
            for partition in range(self.history.partitions):
                sent = self.history.send(self.name, partition)
                producer.produce(
                    self.topic,
                    sent.value,
                    partition=partition,
                    on_delivery=partial(self._delivered, sent),
                )
            producer.poll(PAUSE_S)
            self.ending.wait(PAUSE_S)
        if not self.abandoned.is_set():
            producer.flush(DELIVERY_MS / 1000)
        producer.purge()

    def _delivered(self, sent: Sent, error: Any, message: Any) -> None:
        if error is None:
            self.history.acknowledge(sent, message.offset())
        else:
            self.history.fail(sent, str(error))


class PenstockProducer(Worker):
    """Idempotent, acks="all"."""

    def work(self) -> None:
        self.run_loop(self._work())

    async def _work(self) -> None:
        async with (
            penstock.connect(self.bootstrap, request_timeout_ms=ANSWER_MS) as mq,
            mq.producer(
                acks="all", request_timeout_ms=ANSWER_MS, delivery_timeout_ms=DELIVERY_MS
            ) as producer,
        ):
            while not self.ending.is_set():
                for partition in range(self.history.partitions):
                    sent = self.history.send(self.name, partition)
                    future = await producer.submit(self.topic, sent.value, partition=partition)
                    future.add_done_callback(partial(self._settled, sent))
                await asyncio.sleep(2 * PAUSE_S)

    def _settled(self, sent: Sent, future: asyncio.Future[penstock.Receipt]) -> None:
        error = None if future.cancelled() else future.exception()
        if future.cancelled():
            self.history.fail(sent, "cancelled")
        elif error is None:
            self.history.acknowledge(sent, future.result().offset)
        else:
            # The client knows, and says so.
            is_written = False if "was not written" in str(error) else None
            self.history.fail(sent, str(error), is_written=is_written)


class Reader(Worker):
    """Reads the topic from its beginning, until it is told the ends to reach."""

    def __init__(self, history: History, bootstrap: str, topic: str, name: str) -> None:
        super().__init__(history, bootstrap, topic, name)
        self._ends: Mapping[int, int] | None = None

    def finish_at(self, ends: Mapping[int, int]) -> None:
        """End when everything before these offsets was read."""
        self._ends = ends
        self.finish()

    def is_over(self, position: Callable[[int], int]) -> bool:
        ends = self._ends
        return ends is not None and all(position(each) >= end for each, end in ends.items())


class LibrdkafkaReader(Reader):
    def work(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                **LIBRDKAFKA,
                "bootstrap.servers": self.bootstrap,
                "client.id": self.name,
                "group.id": self.name,
                "enable.auto.commit": False,
                # Nothing here is ever deleted: a reader that is sent elsewhere is told of it.
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "retry.backoff.ms": 20,
            }
        )
        places = [
            confluent_kafka.TopicPartition(self.topic, partition, 0)
            for partition in range(self.history.partitions)
        ]
        consumer.assign(places)
        deadline_s = float("inf")
        while not self.abandoned.is_set() and not self.is_over(
            lambda partition: _position(consumer, places[partition])
        ):
            for message in consumer.consume(500, 0.1):
                if message.error() is not None:
                    self.history.complain(self.name, message.error())
                else:
                    self.history.read(
                        self.name, message.partition(), message.offset(), message.value()
                    )
            if self.ending.is_set():
                deadline_s = min(deadline_s, time.monotonic() + END_S_MAX)
            if time.monotonic() > deadline_s:
                where = [_position(consumer, place) for place in places]
                self.history.complain(self.name, f"is at {where} of {self._ends}")
                break
        consumer.close()


class PenstockReader(Reader):
    def work(self) -> None:
        self.run_loop(self._work())

    async def _work(self) -> None:
        async with penstock.connect(self.bootstrap, request_timeout_ms=ANSWER_MS) as mq:
            consumer = mq.consumer(self.topic, on_out_of_range="error", max_wait_ms=200)
            async with consumer:
                await self._follow(consumer)

    async def _follow(self, consumer: penstock.Consumer) -> None:
        def position(partition: int) -> int:
            return consumer.position((self.topic, partition))

        deadline_s = float("inf")
        while not self.is_over(position):
            try:
                messages = await consumer.fetch(timeout_s=0.1)
            except PenstockError as error:
                self.history.complain(self.name, repr(error))
                continue
            for message in messages:
                self.history.read(self.name, message.partition, message.offset, message.value)
            if self.ending.is_set():
                deadline_s = min(deadline_s, time.monotonic() + END_S_MAX)
            if time.monotonic() > deadline_s:
                where = [position(each) for each in range(self.history.partitions)]
                self.history.complain(self.name, f"is at {where} of {self._ends}")
                break


def _position(consumer: Any, place: Any) -> int:
    (found,) = consumer.position([place])
    return int(found.offset)
