"""A cluster under load, and what is asked of it while things go wrong.

`with under_load(cluster) as scene` makes a topic and lets producers and readers of both kinds work
on it; at the end everything that was sent and read is checked, the replicas' files among it. Not
the failures: those are the tests'. The invariant: a scene that ends without an error was checked,
and something had happened in it.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TypeVar

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

import penstock
from tests.kit.histories.messages import History, Outcome
from tests.kit.processes.cluster import Cluster
from tests.system.cluster.load import (
    END_S_MAX,
    LIBRDKAFKA,
    LibrdkafkaProducer,
    LibrdkafkaReader,
    PenstockProducer,
    PenstockReader,
    Reader,
    Worker,
)
from tests.system.cluster.views import View, views

TOPIC = "orders"
PARTITIONS = 3
# Far more than an election takes, on a machine that does much else.
RECOVERY_S_MAX = 30.0

# Of a record batch: its first offset, and how many bytes follow.
_HEAD = struct.Struct(">qi")
_TERM, _TERM_AT = struct.Struct(">i"), 12

_VISITS = count(1)

T = TypeVar("T")


class Scene:
    """One topic of a cluster, and those who use it."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        bootstrap = self.bootstrap = cluster.bootstrap
        self.cluster = cluster
        # Who has a copy of each partition when it is over.
        self.keepers = set(cluster.ids)
        self.topic = topic
        self.history = History(PARTITIONS)
        self._hired: list[Worker] = []
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

    def views(self) -> dict[int, View]:
        return views(self.cluster, self.topic)

    def leaders(self) -> dict[int, int]:
        """Who leads each partition, in the highest term that any broker knows of."""
        partitions = [view.partitions for view in self.views().values()]
        return {
            number: max((each[number] for each in partitions), key=lambda led: led.term).broker
            for number in range(PARTITIONS)
            if any(number in each for each in partitions)
        }

    def leader(self, partition: int = 0) -> int:
        return until(lambda: self._led(partition, not_by=-1), f"a leader of {partition}")

    def in_sync(self, partition: int) -> frozenset[int]:
        """The replicas in sync, as the partition's leader knows them."""
        leader = self.leader(partition)
        view = self.views().get(leader)
        return frozenset() if view is None else view.partitions[partition].in_sync

    def controller(self) -> int:
        """Whom all that answer hold for the controller."""
        return until(self._controller, "a controller")

    def _led(self, partition: int, not_by: int) -> int | None:
        leader = self.leaders().get(partition, -1)
        return leader if leader not in (-1, not_by) else None

    def _controller(self) -> int | None:
        named = {view.controller for view in self.views().values()}
        return min(named) if len(named) == 1 else None

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
        what = f"another leader of {partition} than broker {not_by}"
        return until(lambda: self._led(partition, not_by), what)

    def wait_controller(self, *, not_by: int) -> int:
        """Until the others hold somebody else for the controller; whom."""

        def look() -> int | None:
            named = {view.controller for each, view in self.views().items() if each != not_by}
            return min(named) if len(named) == 1 and not_by not in named else None

        return until(look, f"another controller than broker {not_by}")

    def wait_brokers(self, *expected: int) -> None:
        """Until all that answer hold just these for alive."""
        until(
            lambda: {view.brokers for view in self.views().values()} == {frozenset(expected)},
            f"brokers {expected}",
        )

    def wait_in_sync(self, count: int = 3) -> None:
        """Until so many replicas of each partition have everything."""
        until(
            lambda: all(len(self.in_sync(number)) >= count for number in range(PARTITIONS)),
            f"{count} replicas in sync",
        )

    def visit(self) -> None:
        """New clients of both kinds, that know nothing, read a message of each partition."""
        for kind in (PenstockReader, LibrdkafkaReader):
            visitor = kind(self.history, self.bootstrap, self.topic, f"visitor {next(_VISITS)}")
            self.hire(visitor)
            visitor.finish_at(dict.fromkeys(range(PARTITIONS), 1))

    def wait_settled(self) -> None:
        """Until all copies are where they should be, and nowhere else."""
        until(lambda: asyncio.run(self._is_settled()), "all copies in their places")

    async def _is_settled(self) -> bool:
        async with penstock.connect(self.bootstrap) as mq:
            return not (await mq.cluster.status(moving_only=True)).partitions

    # --- from the beginning to the end -----------------------------------------------------------

    def make_topic(self, name: str, replicas: int = 3) -> None:
        """As soon as the registry can be changed."""
        new = NewTopic(name, PARTITIONS, replicas)

        def made() -> bool:
            if name not in self._admin.list_topics(timeout=3).topics:
                for future in self._admin.create_topics([new], request_timeout=5).values():
                    future.result(RECOVERY_S_MAX)
            return True

        until(made, f"topic {name}")

    def begin(self) -> None:
        self.make_topic(self.topic)
        for number in range(PARTITIONS):
            self.leader(number)
        self.hire(*self.producers, *self.followers)
        # Whoever is only beginning is told of errors that it would get over later.
        until(
            lambda: all(self.history.read_of(follower.name) for follower in self.followers),
            "something to read",
        )
        self.wait_acknowledged()

    def hire(self, *workers: Worker) -> None:
        """Let them work, at most until the scene is over."""
        for worker in workers:
            self._hired.append(worker)
            worker.start()

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
        check_replicas_equal(self, ends)
        check_nobody_failed(self.cluster)

    def leave(self) -> None:
        """Nobody works any more, whatever became of the scene: the cluster is about to go."""
        for worker in self._hired:
            worker.abandon()
        for worker in self._hired:
            worker.join(END_S_MAX)

    def _ends(self) -> dict[int, int]:
        with penstock.connect_blocking(self.bootstrap) as mq:
            return {
                number: mq.admin.find_offset(self.topic, number, "latest")
                for number in range(PARTITIONS)
            }

    def _read_everything(self, ends: Mapping[int, int]) -> list[str]:
        about = (self.history, self.bootstrap, self.topic)
        ours = PenstockReader(*about, "penstock")
        self.hire(ours)
        ours.finish_at(ends)
        # The last of a log may be no message: a leader's first word.
        last = {
            number: max(self.history.read_by(ours.name, number), default=-1) + 1
            for number in range(PARTITIONS)
        }
        theirs = LibrdkafkaReader(*about, "librdkafka")
        self.hire(theirs)
        for reader in (theirs, *self.followers):
            reader.finish_at(last)
        return [ours.name, theirs.name]


@contextmanager
def under_load(cluster: Cluster) -> Iterator[Scene]:
    """All brokers must be back, and reachable, when it ends."""
    scene = Scene(cluster, TOPIC)
    try:
        scene.begin()
        yield scene
        scene.end()
    finally:
        scene.leave()


def until(look: Callable[[], T | None], what: object, seconds_max: float = RECOVERY_S_MAX) -> T:
    """What `look` finds as soon as it finds something. That it cannot ask now is no failure."""
    deadline_s = time.monotonic() + seconds_max
    refusal = None
    while True:
        try:
            if found := look():
                return found
        except confluent_kafka.KafkaException as error:
            refusal = error
        assert time.monotonic() < deadline_s, f"{what}: not in {seconds_max} s; {refusal}"
        time.sleep(0.02)


def check_replicas_equal(scene: Scene, ends: Mapping[int, int]) -> None:
    """All who have a copy get to have the same batches at the same offsets, byte for byte, before
    these ends of what is committed."""
    deadline_s = time.monotonic() + RECOVERY_S_MAX
    while different := _different(scene, ends):
        assert time.monotonic() < deadline_s, f"copies differ: {different[:5]}"
        time.sleep(0.1)


def check_nobody_failed(cluster: Cluster) -> None:
    """No broker met anything that it was not made for."""
    for broker_id in cluster.ids:
        before, found, after = cluster.log(broker_id).partition("Traceback")
        assert not found, f"broker {broker_id}: {before[-500:]}{found}{after[:2000]}"


def _different(scene: Scene, ends: Mapping[int, int]) -> list[str]:
    different = []
    for number, end in ends.items():
        first, *others = [
            (each, batches(scene.cluster.data(each) / "topics" / scene.topic / str(number), end))
            for each in sorted(scene.keepers)
        ]
        different += [
            f"at {number}/{at} broker {first[0]} has {_told(first[1], at)}, "
            f"broker {other[0]} {_told(other[1], at)}"
            for other in others
            for at in sorted(first[1].keys() | other[1].keys())
            if first[1].get(at) != other[1].get(at)
        ]
    return different


def _told(found: dict[int, bytes], offset: int) -> str:
    """What a copy has there: it may lag, or differ."""
    batch = found.get(offset)
    if batch is None:
        return "no batch" if max(found, default=-1) > offset else "an end before it"
    return f"{len(batch)} bytes of term {_TERM.unpack_from(batch, _TERM_AT)[0]}"


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
