"""Topics are deleted and made anew while both kinds of clients write to them and to others.

Answers leave a connection in the order of its calls: one that is never given holds up all behind
it, of whatever topic. So every message must have a fate soon, and nobody may give up for good.
"""

from __future__ import annotations

import asyncio
import json
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
from tests.kit.histories.messages import History, Sent, check_no_duplicates, check_order_kept
from tests.kit.processes.cluster import Cluster
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
    """What became of each message of one producer, and how long that took."""

    def __init__(self, producer: str, passing_s_max: float) -> None:
        """passing_s_max: of messages to topics that are deleted. One whose call is not answered
        takes longer: its client asks again after ANSWER_MS."""
        assert passing_s_max < ANSWER_MS / 1000
        self.producer = producer
        self._passing_s_max = passing_s_max
        self._lock = threading.Lock()
        self._began_s: dict[int, tuple[str, float]] = {}
        self._next = 0
        self.longest_s: dict[str, float] = {}
        self.acknowledged: dict[str, set[Sent]] = {}
        self.reasons: set[str] = set()
        self.dead: list[str] = []
        # As whom it has written to the brokers, where it tells.
        self.identities: set[object] = set()

    def begin(self, topic: str, partition: int) -> Sent:
        """Numbered through all topics."""
        with self._lock:
            sent = Sent(self.producer, partition, self._next)
            self._next += 1
            self._began_s[sent.sequence] = topic, time.monotonic()
        return sent

    def end(self, sent: Sent, error: object) -> None:
        with self._lock:
            topic, began_s = self._began_s.pop(sent.sequence)
            took_s = time.monotonic() - began_s
            self.longest_s[topic] = max(self.longest_s.get(topic, 0.0), took_s)
            if error is None:
                self.acknowledged.setdefault(topic, set()).add(sent)
            else:
                self.reasons.add(f"{topic}: {error}")

    @property
    def next(self) -> int:
        """The number of the message that is begun next."""
        with self._lock:
            return self._next

    def count(self, topic: str, since: int = 0) -> int:
        """How many are acknowledged of those that were begun since then."""
        return len(self.acknowledged_since(topic, since))

    def acknowledged_since(self, topic: str, since: int) -> set[Sent]:
        with self._lock:
            return {sent for sent in self.acknowledged.get(topic, ()) if sent.sequence >= since}

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
        self.theirs = Fates("librdkafka", THEIR_FATE_S_MAX)
        self.ours = Fates("penstock", FATE_S_MAX)
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

    @property
    def both(self) -> tuple[Fates, Fates]:
        return self.theirs, self.ours

    def wait_acknowledged(self, *topics: str, more: int = 10) -> dict[Fates, int]:
        """Until so many messages are acknowledged that are begun from now on; which those are."""
        since = {fates: fates.next for fates in self.both}
        awaited = {(fates, topic) for fates in self.both for topic in topics}

        def lacking() -> list[tuple[str, str]]:
            assert not (dead := self.theirs.dead + self.ours.dead), dead
            return [
                (fates.producer, topic)
                for fates, topic in awaited
                if fates.count(topic, since[fates]) < more
            ]

        until(lambda: not lacking(), f"{more} more messages acknowledged in {topics}")
        return since

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
                "statistics.interval.ms": 20,
                "stats_cb": lambda text: fates.identities.update(_identity(text)),
            }
        )
        while not self._ending.is_set():
            for topic in (LASTING, *PASSING):
                for partition in range(PARTITIONS):
                    self._send(producer, topic, partition)
            producer.poll(PAUSE_S)
        producer.flush(FATE_S_MAX)
        # What is with itself, also for another try, is not for brokers to answer.
        give_up_s = time.monotonic() + FATE_S_MAX
        while len(producer) and time.monotonic() < give_up_s:
            producer.purge(in_flight=False)
            producer.poll(PAUSE_S)

    def _send(self, producer: confluent_kafka.Producer, topic: str, partition: int) -> None:
        sent = self.theirs.begin(topic, partition)

        def told(error: Any, message: Any) -> None:
            del message
            self.theirs.end(sent, error)

        try:
            producer.produce(topic, sent.value, partition=partition, on_delivery=told)
        except confluent_kafka.KafkaException as error:
            # It knows that the topic is gone.
            self.theirs.end(sent, error)

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
                    sent = fates.begin(topic, 0)
                    try:
                        future = await producer.submit(topic, sent.value, partition=0)
                    except PenstockError as error:
                        fates.end(sent, error)
                        continue
                    future.add_done_callback(partial(_settled, fates, sent))
                await asyncio.sleep(2 * PAUSE_S)


def _identity(statistics: str) -> set[object]:
    """None at first."""
    found = json.loads(statistics)["eos"]
    return {(found["producer_id"], found["producer_epoch"])} if found["producer_id"] >= 0 else set()


def _settled(fates: Fates, sent: Sent, future: asyncio.Future[penstock.Receipt]) -> None:
    fates.end(sent, "cancelled" if future.cancelled() else future.exception())


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
        since = writers.wait_acknowledged(LASTING, *PASSING)
    finally:
        writers.end()
    for fates in writers.both:
        told = fates.longest_s, sorted(fates.reasons), fates.identities
        print(fates.producer, *told, file=sys.stderr)
        fates.check()
    check_nobody_failed(cluster)
    for topic in (LASTING, *PASSING):
        history = asyncio.run(_read(cluster.bootstrap, topic))
        found = {Sent.of(read.value) for read in history.read_of(topic)}
        for fates in writers.both:
            # Of what was acknowledged in a topic that is made anew nobody can tell in which one it
            # was; but what was begun when the last had acknowledged some is in the last.
            lost = fates.acknowledged_since(topic, 0 if topic == LASTING else since[fates]) - found
            assert not lost, f"{len(lost)} acknowledged messages are lost: {sorted(lost)[:5]}"
        check_written_once(history, topic, writers)


def check_written_once(history: History, topic: str, writers: Writers) -> None:
    """R-PRO-2: nothing is there twice or out of order, of what there is now of the topic; as long
    as the producer was the same to brokers. librdkafka takes another identity where messages are
    given up, and sends those of unknown fate again under it."""
    for fates in writers.both:
        if len(fates.identities) > 1:
            continue
        own = History(PARTITIONS)
        own.reads[topic] = [
            read
            for read in history.read_of(topic)
            if Sent.of(read.value).producer == fates.producer
        ]
        check_no_duplicates(own, topic)
        check_order_kept(own, topic)


async def _read(bootstrap: str, topic: str) -> History:
    """All that is in it, by a reader of the topic's name."""
    history = History(PARTITIONS)
    async with penstock.connect(bootstrap) as mq:
        places = [(topic, number) for number in range(PARTITIONS)]
        ends = {place: await mq.admin.find_offset(*place, "latest") for place in places}
        async with mq.consumer(topic) as consumer, asyncio.timeout(RECOVERY_S_MAX):
            while any(consumer.position(place) < end for place, end in ends.items()):
                for message in await consumer.fetch(timeout_s=0.1):
                    history.read(topic, message.partition, message.offset, message.value)
    return history


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
