"""Consumer groups live on while the broker that looks after them dies: librdkafka's members go on,
and what was committed is never forgotten; neither is what our consumers acknowledged."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka

import penstock
from penstock.model.errors import PenstockError
from penstock.model.ids import TopicPartition
from tests.kit.histories.messages import Outcome, Sent
from tests.kit.processes.cluster import Cluster
from tests.system.cluster.load import ANSWER_MS, LIBRDKAFKA, Worker
from tests.system.cluster.scene import PARTITIONS, Scene, under_load, until
from tests.system.cluster.views import coordinator

SESSION_MS = 6_000


class Member(Worker):
    """Reads for a group and commits what it read: what it was told is committed is remembered."""

    group: str

    def __init__(self, scene: Scene, name: str) -> None:
        super().__init__(scene.history, scene.bootstrap, scene.topic, name)
        self.read: set[Sent] = set()
        # The highest offset of each partition that the broker said it has.
        self.committed: dict[int, int] = defaultdict(int)
        self.commits_failed = 0

    def __str__(self) -> str:
        return (
            f"{self.name}: {len(self.read)} read, {dict(self.committed)} committed, "
            f"{self.commits_failed} commits failed"
        )

    @property
    def seen(self) -> tuple[int, int]:
        """How many messages it read, and how many of them are committed."""
        return len(self.read), sum(self.committed.values())

    def note_committed(self, partition: int, offset: int) -> None:
        self.committed[partition] = max(self.committed[partition], offset)


class LibrdkafkaMember(Member):
    group = "billing"

    def work(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                **LIBRDKAFKA,
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "client.id": self.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                "fetch.wait.max.ms": 100,
            }
        )
        consumer.subscribe([self.topic])
        while not self.ending.is_set():
            messages = [each for each in consumer.consume(500, 0.1) if each.error() is None]
            self.read.update(Sent.of(message.value()) for message in messages)
            if messages:
                self._commit(consumer)
        consumer.close()

    def _commit(self, consumer: Any) -> None:
        try:
            for place in consumer.commit(asynchronous=False):
                if place.error is None:
                    self.note_committed(place.partition, place.offset)
        except confluent_kafka.KafkaException:
            # Nobody answered, or the partitions are somebody else's by now: then they are read
            # again, which is what a group promises.
            self.commits_failed += 1


class PenstockMember(Member):
    group = "audit"

    def work(self) -> None:
        self.run_loop(self._work())

    async def _work(self) -> None:
        async with penstock.connect(self.bootstrap, request_timeout_ms=ANSWER_MS) as mq:
            consumer = mq.subscribe(self.topic, group=self.group, max_wait_ms=200)
            async with consumer:
                while not self.ending.is_set():
                    messages = await consumer.fetch(timeout_s=0.1)
                    self.read.update(Sent.of(message.value or b"") for message in messages)
                    if messages:
                        await self._commit(consumer)

    async def _commit(self, consumer: penstock.Consumer) -> None:
        places = {place.partition: consumer.position(place) for place in consumer.partitions}
        try:
            await consumer.commit()
        except PenstockError:
            self.commits_failed += 1
        else:
            for partition, offset in places.items():
                self.note_committed(partition, offset)


def test_the_coordinator_dies(tmp_path: Path) -> None:
    """Committed offsets survive it, and members neither stop nor miss a message."""
    with Cluster(tmp_path) as cluster, under_load(cluster) as scene:
        members: list[Member] = [
            LibrdkafkaMember(scene, "first of billing"),
            LibrdkafkaMember(scene, "second of billing"),
            PenstockMember(scene, "audit"),
        ]
        scene.hire(*members)
        wait_going_on(members)
        lost = coordinator_of(scene)
        cluster.kill(lost)
        coordinator_of(scene, not_by=lost)
        wait_going_on(members)
        cluster.start(lost)
        scene.wait_in_sync()
        for producer in scene.producers:
            producer.finish()
        for group in (LibrdkafkaMember.group, PenstockMember.group):
            wait_read_everything(scene, [member for member in members if member.group == group])
        for member in members:
            member.finish()
        check_committed(scene, members)


def coordinator_of(scene: Scene, *, not_by: int = -1) -> int:
    def look() -> int | None:
        found = coordinator(scene.cluster, LibrdkafkaMember.group)
        return found if found != not_by else None

    return until(look, f"another coordinator than broker {not_by}")


def wait_going_on(members: list[Member]) -> None:
    """Until each member has read more, and committed more."""
    for member, seen in [(member, member.seen) for member in members]:
        until(partial(_goes_on, member, seen), member)


def _goes_on(member: Member, before: tuple[int, int]) -> bool:
    read, committed = member.seen
    return read >= before[0] + 100 and committed > before[1]


def wait_read_everything(scene: Scene, members: list[Member]) -> None:
    """Until a group has read everything that was acknowledged (at least once)."""
    acknowledged = {
        sent for sent, send in scene.history.sent() if send.outcome is Outcome.ACKNOWLEDGED
    }
    until(
        lambda: acknowledged <= set().union(*(member.read for member in members)),
        f"all messages for {members[0].group}",
    )


def check_committed(scene: Scene, members: list[Member]) -> None:
    """What the broker said it has is what it has, or less than that."""
    with penstock.connect_blocking(scene.bootstrap) as mq:
        for group in {member.group for member in members}:
            kept = mq.admin.group_offsets(group)
            told: dict[int, int] = defaultdict(int)
            for member in members:
                if member.group == group:
                    for partition, offset in member.committed.items():
                        told[partition] = max(told[partition], offset)
            assert set(told) == set(range(PARTITIONS))
            for partition, offset in told.items():
                assert kept[TopicPartition(scene.topic, partition)] >= offset, (
                    group,
                    partition,
                    kept,
                    told,
                )
