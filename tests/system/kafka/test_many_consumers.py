"""A hundred consumers in one group on twenty topics: stable within seconds, balanced, and no storm
when ten leave at once. No partition has two owners at a time, over the whole run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.system.kafka.drivers.driver import PATIENCE_S
from tests.system.kafka.members import Story
from tests.system.kafka.provide import CLIENTS

MEMBERS = 100
LEAVING = 10
TOPICS = 20
PARTITIONS_PER_TOPIC = 10
PROCESSES = 5


class Crowd:
    """Processes with many members each; they are gone when the `with` ends."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], protocol: str) -> None:
        self.story = Story()
        self._processes: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        for number in range(PROCESSES):
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.system.kafka.crowd_main"],
                env={**os.environ, "PYTHONPATH": str(CLIENTS.parents[3])},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._processes.append(process)
            request = {"bootstrap": bootstrap, "group": group, "topics": topics}
            request |= {"protocol": protocol, "name": f"process-{number}"}
            self._say(process, json.dumps({**request, "count": MEMBERS // PROCESSES}))
            thread = threading.Thread(target=self._listen, args=(process,))
            thread.start()
            self._threads.append(thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.kill()
            process.wait()
            process.stdin.close()
        for thread in self._threads:
            thread.join()

    def leave(self, count: int) -> None:
        """So many leave at once, of the first process."""
        self._say(self._processes[0], str(count))

    def wait_until_shared(self, members: int) -> None:
        """Until so many members own everything between them, evenly."""
        partitions = TOPICS * PARTITIONS_PER_TOPIC

        def is_shared() -> bool:
            counts = [len(owned) for owned in self.story.owned.values() if owned]
            return (
                sum(counts) == partitions
                and len(counts) == members
                and max(counts) - min(counts) <= 1
            )

        self.story.wait(is_shared, f"{partitions} partitions shared by {members}")

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            self.story.add(event["member"], event)
        process.stdout.close()

    @staticmethod
    def _say(process: subprocess.Popen[str], line: str) -> None:
        assert process.stdin is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()


@pytest.fixture(scope="module")
def topics(admin: AdminClient) -> list[str]:
    names = [f"crowded-{number}" for number in range(TOPICS)]
    wanted = [NewTopic(name, PARTITIONS_PER_TOPIC, 1) for name in names]
    for created in admin.create_topics(wanted).values():
        created.result(PATIENCE_S)
    return names


@pytest.mark.parametrize("protocol", ["roundrobin", "cooperative-sticky", "consumer"])
def test_a_crowd_settles_and_stays_calm(
    bootstrap: str, topics: list[str], group: str, protocol: str
) -> None:
    with Crowd(bootstrap, group, topics, protocol) as crowd:
        crowd.wait_until_shared(MEMBERS)
        before = dict(crowd.story.rebalances)
        crowd.leave(LEAVING)
        crowd.wait_until_shared(MEMBERS - LEAVING)
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        sent = 0
        for topic in topics:
            for partition in range(PARTITIONS_PER_TOPIC):
                producer.produce(topic, b"%d" % sent, partition=partition)
                sent += 1
        assert producer.flush(PATIENCE_S) == 0
        crowd.story.wait(lambda: set(range(sent)) <= set(crowd.story.read), "all is read")
        with crowd.story.changed:
            after = dict(crowd.story.rebalances)
        # One for all who leave together; a few where some were later than others.
        worst = max(after[member] - before[member] for member in before)
        assert worst <= LEAVING // 2, f"{worst} rebalances when {LEAVING} left"
    crowd.story.check()
