"""A cluster under load, and what is asked of it while things go wrong.

`with under_load(cluster) as scene` makes a topic and lets producers and readers of both kinds work
on it; at the end everything that was sent and read is checked, the replicas' files among it. Not
the failures: those are the tests'. The invariant: a scene that ends without an error was checked,
and something had happened in it.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

import penstock
from tests.cluster_support import Cluster
from tests.history import History, Outcome
from tests.system.cluster.load import (
    LIBRDKAFKA,
    LibrdkafkaProducer,
    LibrdkafkaReader,
    PenstockProducer,
    PenstockReader,
    Reader,
    Worker,
)

TOPIC = "orders"
PARTITIONS = 3
# Far more than an election takes, on a machine that does much else.
RECOVERY_S_MAX = 20.0

# Of a record batch: its first offset, and how many bytes follow.
_HEAD = struct.Struct(">qi")

T = TypeVar("T")


class Scene:
    """One topic of a cluster, and those who use it."""

    def __init__(self, cluster: Cluster, bootstrap: str, topic: str) -> None:
        self.cluster = cluster
        self.bootstrap = bootstrap
        self.topic = topic
        self.history = History(PARTITIONS)
        self._admin = AdminClient({**LIBRDKAFKA, "bootstrap.servers": bootstrap})
        about = (self.history, bootstrap, topic)
        self.producers: list[Worker] = [
            LibrdkafkaProducer(*about, "librdkafka"),
            PenstockProducer(*about, "penstock"),
        ]
        self.followers: list[Reader] = [
            LibrdkafkaReader(*about, "librdkafka follows"),
            PenstockReader(*about, "penstock follows"),
        ]

    # --- what the cluster says -------------------------------------------------------------------

    def metadata(self) -> Any:
        return self._admin.list_topics(self.topic, timeout=5)

    def leaders(self) -> dict[int, int]:
        """Who leads each partition, as whichever broker answers knows it; -1: nobody."""
        return _leaders(self._admin, self.topic)

    def leader(self, partition: int = 0) -> int:
        return until(
            lambda: next((it for it in [self.leaders().get(partition, -1)] if it > 0), None),
            "a leader",
        )

    def in_sync(self, partition: int) -> set[int]:
        return set(self.metadata().topics[self.topic].partitions[partition].isrs)

    def controller(self) -> int:
        return until(
            lambda: next((it for it in [self.metadata().controller_id] if it > 0), None),
            "a controller",
        )

    # --- waiting ---------------------------------------------------------------------------------

    def wait_acknowledged(
        self, more: int = 30, partitions: tuple[int, ...] = tuple(range(PARTITIONS))
    ) -> None:
        """Until so many more messages are acknowledged, in each of the partitions."""
        goals = {number: self.history.acknowledged(number) + more for number in partitions}
        until(
            lambda: all(self.history.acknowledged(each) >= goal for each, goal in goals.items()),
            f"{more} more messages acknowledged in each of {partitions}",
        )

    def wait_led(self, partition: int, *, not_by: int) -> int:
        """Until somebody else leads the partition; who that is."""
        return until(
            lambda: next(
                (it for it in [self.leaders()[partition]] if it not in (-1, not_by)), None
            ),
            f"another leader of {partition} than broker {not_by}",
        )

    def wait_controller(self, *, not_by: int) -> int:
        return until(
            lambda: next((it for it in [self.controller()] if it != not_by), None),
            f"another controller than broker {not_by}",
        )

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        until(lambda: holds() or None, what)

    def wait_in_sync(self, count: int = 3) -> None:
        """Until so many replicas of each partition have everything."""
        until(
            lambda: all(len(self.in_sync(number)) >= count for number in range(PARTITIONS)),
            f"{count} replicas in sync",
        )

    # --- from the beginning to the end -----------------------------------------------------------

    def make_topic(self, name: str, replicas: int = 3) -> None:
        new = NewTopic(name, PARTITIONS, replicas)
        for future in self._admin.create_topics([new]).values():
            future.result(RECOVERY_S_MAX)

    def begin(self) -> None:
        self.make_topic(self.topic)
        for worker in (*self.producers, *self.followers):
            worker.start()
        self.wait_acknowledged()

    def end(self) -> None:
        """Let the producers finish, read everything, and check it all."""
        for producer in self.producers:
            producer.ending.set()
        for producer in self.producers:
            producer.finish()
        ends = self._ends()
        whole = self._read_everything(ends)
        report = self.history.report()
        print(report, file=sys.stderr)
        self.history.check(whole)
        assert self.history.count(Outcome.UNKNOWN) == 0, report
        check_replicas_equal(self.cluster, self.topic, ends)

    def abandon(self) -> None:
        for worker in (*self.producers, *self.followers):
            worker.ending.set()

    def _ends(self) -> dict[int, int]:
        with penstock.connect_blocking(self.bootstrap) as mq:
            return {
                number: mq.admin.find_offset(self.topic, number, "latest")
                for number in range(PARTITIONS)
            }

    def _read_everything(self, ends: Mapping[int, int]) -> list[str]:
        about = (self.history, self.bootstrap, self.topic)
        ours = PenstockReader(*about, "penstock")
        ours.start()
        ours.finish_at(ends)
        # The last of a log may be no message: a leader's first word.
        last = {
            number: max(self.history.read_by(ours.name, number), default=-1) + 1
            for number in range(PARTITIONS)
        }
        theirs = LibrdkafkaReader(*about, "librdkafka")
        theirs.start()
        for reader in (theirs, *self.followers):
            reader.finish_at(last)
        return [ours.name, theirs.name]


@contextmanager
def under_load(cluster: Cluster, bootstrap: str = "", topic: str = TOPIC) -> Iterator[Scene]:
    """All brokers that the test let live must be back, and reachable, when it ends."""
    scene = Scene(cluster, bootstrap or cluster.bootstrap, topic)
    try:
        scene.begin()
        yield scene
        scene.end()
    finally:
        scene.abandon()


def leaders_by(address: str, topic: str) -> dict[int, int]:
    """Who leads each partition, as the broker at the address knows it."""
    admin = AdminClient(
        {**LIBRDKAFKA, "bootstrap.servers": address, "metadata.recovery.strategy": "none"}
    )
    return _leaders(admin, topic)


def _leaders(admin: Any, topic: str) -> dict[int, int]:
    partitions = admin.list_topics(topic, timeout=5).topics[topic].partitions
    return {number: partition.leader for number, partition in partitions.items()}


def until(look: Callable[[], T | None], what: str, seconds_max: float = RECOVERY_S_MAX) -> T:
    """What `look` finds as soon as it finds something. That it cannot ask now is no failure."""
    deadline_s = time.monotonic() + seconds_max
    while True:
        try:
            found = look()
        except confluent_kafka.KafkaException:
            found = None
        if found:
            return found
        assert time.monotonic() < deadline_s, f"{what}: not in {seconds_max} s"
        time.sleep(0.02)


def check_replicas_equal(cluster: Cluster, topic: str, ends: Mapping[int, int]) -> None:
    """All brokers get to have the same batches at the same offsets, byte for byte, before these
    ends of what is committed."""
    deadline_s = time.monotonic() + RECOVERY_S_MAX
    while different := _different(cluster, topic, ends):
        assert time.monotonic() < deadline_s, f"copies of {topic} differ: {different[:5]}"
        time.sleep(0.1)


def _different(cluster: Cluster, topic: str, ends: Mapping[int, int]) -> list[str]:
    different = []
    for number, end in ends.items():
        first, *others = [
            (each, batches(cluster.data(each) / "topics" / topic / str(number), end))
            for each in cluster.ids
        ]
        different += [
            f"brokers {first[0]} and {other[0]} at {number}/{at}"
            for other in others
            for at in sorted(first[1].keys() | other[1].keys())
            if first[1].get(at) != other[1].get(at)
        ]
    return different


def batches(folder: Path, end: float = float("inf")) -> dict[int, bytes]:
    """The batches in a partition's folder before an offset, by their first offset."""
    found = {}
    for path in sorted(folder.glob("*.log")):
        content = path.read_bytes()
        place = 0
        while place + _HEAD.size <= len(content):
            base_offset, length = _HEAD.unpack_from(content, place)
            if base_offset >= end:
                break
            found[base_offset] = content[place : place + _HEAD.size + length]
            place += _HEAD.size + length
    return found
