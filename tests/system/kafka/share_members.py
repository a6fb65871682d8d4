"""Members of share groups for the tests: of librdkafka in a thread, of Java and Go in a process.

Each tells what it got. Invariant: what is told is in the order in which the member got it.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import AcknowledgeType, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.system.kafka.drivers.driver import PATIENCE_S
from tests.system.kafka.provide import franz, java


def set_for_group(admin: AdminClient, name: str, value: str, group: str) -> None:
    """One of the group's settings, as an operator sets it; the group need not be there."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
    [altered] = admin.incremental_alter_configs([wanted]).values()
    altered.result(PATIENCE_S)


def settings_of(admin: AdminClient, group: str) -> dict[str, str]:
    [described] = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.GROUP, group)]
    ).values()
    return {name: entry.value for name, entry in described.result(PATIENCE_S).items()}


class Got(NamedTuple):
    """A message, with how often it was delivered."""

    offset: int
    delivery_count: int
    value: str


def mixed(number: int, delivery_count: int) -> str:
    """What becomes of a message with such a value: of ten 3 and 4 are released when they come for
    the first time, and 7 is rejected. Members in other languages have the same rule."""
    if number % 10 == 7:
        return "reject"
    return "release" if number % 10 in (3, 4) and delivery_count == 1 else "accept"


class LibrdkafkaMember:
    """Polls until the end, and acknowledges as it is told. how: None is by `mixed`, which is told
    behind the value."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        how: AcknowledgeType | None = AcknowledgeType.ACCEPT,
    ) -> None:
        self.got: list[Got] = []
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "log_level": 0,
            "share.acknowledgement.mode": "explicit",
        }
        self._consumer = ShareConsumer(settings)
        self._consumer.subscribe([topic])
        self._how = how
        self._leaving = threading.Event()
        self._polling = threading.Thread(target=self._poll)

    def _poll(self) -> None:
        while not self._leaving.is_set():
            for message in self._consumer.poll(0.1):
                assert message.error() is None, message.error()
                value = message.value()
                assert value is not None
                told, how = value.decode(), self._how
                if how is None:
                    outcome = mixed(int(told), message.delivery_count())
                    told, how = f"{told} {outcome}", AcknowledgeType[outcome.upper()]
                self.got.append(Got(message.offset(), message.delivery_count(), told))
                self._consumer.acknowledge(message, how)

    def leave(self) -> None:
        """In good order: when this returns, its acknowledgements have been heard."""
        if not self._leaving.is_set():
            self._leaving.set()
            self._polling.join()
            self._consumer.close()

    def __enter__(self) -> Self:
        self._polling.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.leave()


class ProcessMember:
    """A program that tells what it gets, a line each, until its input ends."""

    def __init__(self, command: Sequence[str]) -> None:
        self.got: list[Got] = []
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reading = threading.Thread(target=self._read)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            offset, count, value = line.rstrip("\n").split(" ", 2)
            self.got.append(Got(int(offset), int(count), value))

    def kill(self) -> None:
        self._process.kill()

    def leave(self) -> None:
        """In good order: when this returns, its acknowledgements have been heard."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.close()
        assert self._process.wait(60) == 0

    def __enter__(self) -> Self:
        self._reading.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._reading.join()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class JavaMember(ProcessMember):
    """Kafka's own consumer. how: ACCEPT, RELEASE, REJECT; MIXED is by `mixed`, which is told behind
    the value; with HOLD it stops with the first message in its hand, and its others behind it."""

    def __init__(self, bootstrap: str, group: str, topic: str, how: str = "ACCEPT") -> None:
        super().__init__(
            java().with_arguments("ForeignShareConsumer", bootstrap, group, topic, how)
        )


class FranzMember(ProcessMember):
    """franz-go's, which goes by the headers of batches. What it does is by `mixed`, and told behind
    the value."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        super().__init__(franz().with_arguments(bootstrap, group, topic))
