"""Topics are deleted and made anew while both kinds of clients write to them and to others.

Answers leave a connection in the order of its calls: one that is never given holds up all behind
it, of whatever topic. So every message must have a fate soon, and nobody may give up for good.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import penstock
from penstock.model.errors import PenstockError
from tests.cluster_support import Cluster
from tests.system.cluster.load import DELIVERY_MS, LIBRDKAFKA, PAUSE_S
from tests.system.cluster.scene import RECOVERY_S_MAX, check_nobody_failed, until

LASTING = "lasting"
PASSING = ("passing-0", "passing-1", "passing-2")
# Nobody stands still here, so this is only for answers that never come.
ANSWER_MS = 45_000
# An election takes a second, on a machine that does much else some more.
FATE_S_MAX = 20.0
# For a topic that it does not find librdkafka waits half a minute by itself.
THEIR_FATE_S_MAX = 40.0
PARTITIONS = 2


class Fates:
    """What became of each message, and how long that took."""

    def __init__(self, passing_s_max: float) -> None:
        """passing_s_max: of messages to topics that are deleted. One whose call is not answered
        takes longer: its client asks again after ANSWER_MS."""
        assert passing_s_max < ANSWER_MS / 1000
        self._passing_s_max = passing_s_max
        self._lock = threading.Lock()
        self._began_s: dict[int, tuple[str, float]] = {}
        self._numbers = iter(range(10**9))
        self.longest_s: dict[str, float] = {}
        self.acknowledged: dict[str, set[bytes]] = {}
        self.reasons: set[str] = set()
        self.dead: list[str] = []

    def begin(self, topic: str) -> tuple[int, bytes]:
        with self._lock:
            number = next(self._numbers)
            self._began_s[number] = topic, time.monotonic()
        return number, f"{topic} {number}".encode()

    def end(self, number: int, value: bytes, error: object) -> None:
        with self._lock:
            topic, began_s = self._began_s.pop(number)
            took_s = time.monotonic() - began_s
            self.longest_s[topic] = max(self.longest_s.get(topic, 0.0), took_s)
            if error is None:
                self.acknowledged.setdefault(topic, set()).add(value)
            else:
                self.reasons.add(f"{topic}: {error}")

    def count(self, topic: str) -> int:
        with self._lock:
            return len(self.acknowledged.get(topic, ()))

    def check(self) -> None:
        """Every call is answered, and soon."""
        assert not self.dead, self.dead
        assert not self._began_s, f"{len(self._began_s)} messages have no fate: {self.reasons}"
        for topic, longest_s in self.longest_s.items():
            most_s = FATE_S_MAX if topic == LASTING else self._passing_s_max
            assert longest_s < most_s, f"{self.longest_s}; {self.reasons}"


class Writers:
    """A producer of librdkafka and one of ours, each with one message on the way to everywhere,
    again and again."""

    def __init__(self, bootstrap: str) -> None:
        self.theirs, self.ours = Fates(THEIR_FATE_S_MAX), Fates(FATE_S_MAX)
        self._bootstrap = bootstrap
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._survive, args=(work, fates), daemon=True)
            for work, fates in ((self._librdkafka, self.theirs), (self._penstock, self.ours))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(DELIVERY_MS / 1000)
            assert not thread.is_alive()

    def wait_acknowledged(self, *topics: str, more: int = 10) -> None:
        goals = {
            (fates, topic): fates.count(topic) + more
            for fates in (self.theirs, self.ours)
            for topic in topics
        }

        def is_enough() -> bool:
            assert not (dead := self.theirs.dead + self.ours.dead), dead
            return all(fates.count(topic) >= goal for (fates, topic), goal in goals.items())

        until(is_enough, f"{more} more messages acknowledged in {topics}")

    def _survive(self, work: Callable[[], None], fates: Fates) -> None:
        try:
            work()
        except Exception as error:
            fates.dead.append(repr(error))

    def _librdkafka(self) -> None:
        fates = self.theirs

        def note(error: Any) -> None:
            if error.fatal():
                fates.dead.append(str(error))

        producer = confluent_kafka.Producer(
            {
                **LIBRDKAFKA,
                "bootstrap.servers": self._bootstrap,
                "socket.timeout.ms": ANSWER_MS,
                "enable.idempotence": True,
                "linger.ms": 5,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 500,
                "request.timeout.ms": ANSWER_MS,
                "message.timeout.ms": DELIVERY_MS,
                "error_cb": note,
            }
        )
        while not self._ending.is_set():
            for topic in (LASTING, *PASSING):
                for partition in range(PARTITIONS):
                    self._send(producer, topic, partition)
            producer.poll(PAUSE_S)
        producer.flush(2 * FATE_S_MAX)

    def _send(self, producer: confluent_kafka.Producer, topic: str, partition: int) -> None:
        number, value = self.theirs.begin(topic)

        def told(error: Any, message: Any) -> None:
            del message
            self.theirs.end(number, value, error)

        try:
            producer.produce(topic, value, partition=partition, on_delivery=told)
        except confluent_kafka.KafkaException as error:
            # It knows that the topic is gone.
            self.theirs.end(number, value, error)

    def _penstock(self) -> None:
        asyncio.run(self._ours())

    async def _ours(self) -> None:
        fates = self.ours
        async with (
            penstock.connect(self._bootstrap, request_timeout_ms=ANSWER_MS) as mq,
            mq.producer(
                acks="all", request_timeout_ms=ANSWER_MS, delivery_timeout_ms=DELIVERY_MS
            ) as producer,
        ):
            while not self._ending.is_set():
                for topic in (LASTING, *PASSING):
                    number, value = fates.begin(topic)
                    try:
                        future = await producer.submit(topic, value, partition=0)
                    except PenstockError as error:
                        fates.end(number, value, error)
                        continue
                    future.add_done_callback(partial(_settled, fates, number, value))
                await asyncio.sleep(2 * PAUSE_S)


def _settled(
    fates: Fates, number: int, value: bytes, future: asyncio.Future[penstock.Receipt]
) -> None:
    fates.end(number, value, "cancelled" if future.cancelled() else future.exception())


class Owner:
    """Deletes topics and makes them anew, until it is done: what a broker that dies leaves open is
    asked for again."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({**LIBRDKAFKA, "bootstrap.servers": bootstrap})

    def make(self, *names: str) -> None:
        for name in names:
            until(partial(self._made, name), f"topic {name}")

    def make_anew(self, name: str) -> None:
        until(partial(self._deleted, name), f"{name} deleted")
        self.make(name)

    def _made(self, name: str) -> bool:
        new = NewTopic(name, PARTITIONS, 3)
        made = self._admin.create_topics([new], request_timeout=5)
        return _is_done(made[name], confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS)

    def _deleted(self, name: str) -> bool:
        gone = self._admin.delete_topics([name], request_timeout=5)
        return _is_done(gone[name], confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)


def _is_done(future: Any, done_before: int) -> bool:
    try:
        future.result(10)
    except confluent_kafka.KafkaException as error:
        if error.args[0].code() != done_before:
            raise
    return True


@contextmanager
def writing(cluster: Cluster) -> Iterator[tuple[Writers, Owner]]:
    """Everything is checked at the end."""
    owner = Owner(cluster.bootstrap)
    owner.make(LASTING, *PASSING)
    writers = Writers(cluster.bootstrap)
    writers.start()
    try:
        writers.wait_acknowledged(LASTING, *PASSING)
        yield writers, owner
        writers.wait_acknowledged(LASTING, *PASSING)
    finally:
        writers.end()
    for who, fates in (("librdkafka", writers.theirs), ("penstock", writers.ours)):
        print(who, fates.longest_s, sorted(fates.reasons), file=sys.stderr)
        fates.check()
    check_nobody_failed(cluster)
    found = asyncio.run(_read(cluster.bootstrap))
    for fates in (writers.theirs, writers.ours):
        lost = fates.acknowledged[LASTING] - found
        assert not lost, f"{len(lost)} acknowledged messages are lost: {sorted(lost)[:5]}"


async def _read(bootstrap: str) -> set[bytes]:
    """All that is in the topic that was never deleted."""
    found: set[bytes] = set()
    async with penstock.connect(bootstrap) as mq:
        places = [(LASTING, number) for number in range(PARTITIONS)]
        ends = {place: await mq.admin.find_offset(*place, "latest") for place in places}
        async with mq.consumer(LASTING) as consumer, asyncio.timeout(RECOVERY_S_MAX):
            while any(consumer.position(place) < end for place, end in ends.items()):
                messages = await consumer.fetch(timeout_s=0.1)
                found.update(message.value or b"" for message in messages)
    return found


def test_topics_are_deleted_and_made_anew_under_load(tmp_path: Path) -> None:
    """R-PRO-1, R-PRO-2, R-CORE-4: every message has a fate soon, also in the topic that stays."""
    with (
        Cluster(tmp_path, auto_create_topics=False) as cluster,
        writing(cluster) as (writers, owner),
    ):
        for name in PASSING:
            owner.make_anew(name)
            writers.wait_acknowledged(LASTING, name, more=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_topics_are_deleted_and_made_anew_while_brokers_die(tmp_path: Path, seed: int) -> None:
    """The same with SIGKILLs at any moment of it."""
    chance = random.Random(seed)
    with (
        Cluster(tmp_path, auto_create_topics=False) as cluster,
        writing(cluster) as (writers, owner),
    ):
        for _ in range(5):
            failing = threading.Thread(target=_fail, args=(cluster, chance))
            failing.start()
            for name in chance.sample(PASSING, 2):
                owner.make_anew(name)
            failing.join()
            writers.wait_acknowledged(LASTING, *PASSING)


def _fail(cluster: Cluster, chance: random.Random) -> None:
    victim = chance.choice(cluster.ids)
    time.sleep(chance.uniform(0, 0.5))
    cluster.kill(victim)
    time.sleep(chance.uniform(0, 1))
    cluster.start(victim)
