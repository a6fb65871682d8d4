"""Many members of one consumer group in one process, a thread for each: `test_many_consumers.py`
starts a few of these. They tell what `member_main.py` tells, each with its name.

One request on standard input; each further line is a number: so many of them leave, at once.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import confluent_kafka


class CrowdMember(threading.Thread):
    """Reads until it is told to leave."""

    def __init__(self, name: str, request: dict[str, Any]) -> None:
        super().__init__(name=name)
        self.leaving = threading.Event()
        self._topics = request["topics"]
        settings = {
            "bootstrap.servers": request["bootstrap"],
            "group.id": request["group"],
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 1_000,
            "log_level": 0,
        }
        if request["protocol"] == "consumer":
            settings["group.protocol"] = "consumer"
        else:
            settings["partition.assignment.strategy"] = request["protocol"]
            settings["heartbeat.interval.ms"] = 1_000
        self._consumer = confluent_kafka.Consumer(settings)

    def run(self) -> None:
        self._consumer.subscribe(
            self._topics,
            on_assign=lambda _, partitions: self._tell("assigned", partitions),
            on_revoke=lambda _, partitions: self._tell("revoked", partitions),
            on_lost=lambda _, partitions: self._tell("revoked", partitions),
        )
        while not self.leaving.is_set():
            message = self._consumer.poll(0.5)
            if message is not None and message.error() is None:
                tell(event="read", member=self.name, value=message.value().decode())
        self._consumer.close()
        tell(event="left", member=self.name)

    def _tell(self, event: str, partitions: list[confluent_kafka.TopicPartition]) -> None:
        listed = [(partition.topic, partition.partition) for partition in partitions]
        tell(event=event, member=self.name, partitions=listed)


_saying = threading.Lock()


def tell(**event: object) -> None:
    line = json.dumps({**event, "at_ns": str(time.monotonic_ns())})
    with _saying:
        print(line, flush=True)


def main() -> None:
    request = json.loads(sys.stdin.readline())
    members = [
        CrowdMember(f"{request['name']}-{number}", request) for number in range(request["count"])
    ]
    for member in members:
        member.start()
    for line in sys.stdin:
        for _ in range(int(line)):
            members.pop().leaving.set()
    for member in members:
        member.leaving.set()


if __name__ == "__main__":
    main()
