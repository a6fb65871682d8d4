"""Clusters under test: three brokers of Penstock on loopback, each a process with a folder of its
own, which can be killed and started again.

Not a measurement, and not what starts clusters for users: its brokers are those that `penstock up
--brokers 3` would start, but nobody looks after them. Invariant: whatever ends a `with`, no broker
is left.
"""

from __future__ import annotations

import abc
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from benchmarks import servers
from benchmarks.servers import Server
from benchmarks.wire import NativeWire, ServerRefused
from penstock.broker.config import BrokerConfig
from penstock.cli.local_cluster.command import broker_program, prepare
from penstock.cli.local_cluster.kept import write_kept
from penstock.protocol import penstock_pb2 as messages

BROKERS: Final = 3
MIN_INSYNC_REPLICAS: Final = 2
_WAIT_S_MAX: Final = 120.0
_ASK_S_MAX: Final = 60.0
# Quiet is when all brokers together use less than this of a core, twice in a row. Three idle JVMs
# need a few percent.
_QUIET_CORE_SHARE: Final = 0.15
_QUIET_LOOK_S: Final = 0.2


class Led(NamedTuple):
    """Who leads a partition, -1 if nobody is known to; and who has all of it."""

    leader: int
    in_sync: frozenset[int]


class Cluster(abc.ABC):
    """Brokers by their ids: those that run."""

    def __init__(self) -> None:
        self.brokers: dict[int, Server] = {}

    @abc.abstractmethod
    def start(self, ids: Iterable[int]) -> None:
        """Start these, which do not run, at once, and wait until they are ready."""

    @abc.abstractmethod
    def create_topic(
        self, topic: str, partitions: int = 1, replicas: int = BROKERS, durability: str = "os"
    ) -> None:
        """With acks=all at least MIN_INSYNC_REPLICAS have what is acknowledged, where there are as
        many."""

    @abc.abstractmethod
    def led(self, topic: str, ask: int | None = None) -> list[Led]:
        """The topic's partitions, as the broker `ask` knows them, or any that runs."""

    @property
    def bootstrap(self) -> str:
        return ",".join(server.bootstrap for server in self.brokers.values())

    @property
    def cpu_s(self) -> float:
        """Of all that run, so far."""
        return sum(server.cpu_s for server in self.brokers.values())

    @property
    def resident_bytes(self) -> int:
        return sum(server.resident_bytes for server in self.brokers.values())

    def kill(self, broker_id: int) -> None:
        server = self.brokers.pop(broker_id)
        server.kill()
        server.close()

    def stop(self, broker_id: int) -> None:
        """In order."""
        server = self.brokers.pop(broker_id)
        server.stop()
        server.close()

    def wait_until_whole(self, topic: str, replicas: int = BROKERS) -> list[Led]:
        """Return when every partition has a leader and so many in sync."""
        deadline = time.monotonic() + _WAIT_S_MAX
        while True:
            led = self.led(topic)
            if all(each.leader >= 0 and len(each.in_sync) == replicas for each in led):
                return led
            assert time.monotonic() < deadline, f"{topic} is not whole: {led[:10]}"
            time.sleep(0.05)

    def wait_until_quiet(self) -> None:
        """Return when the brokers have done what was left to do: the copies that nobody had to
        wait for, files, compiling. Not for ever: what goes on and on is a cost too."""
        quiet, deadline = 0, time.monotonic() + _WAIT_S_MAX / 4
        while quiet < 2 and time.monotonic() < deadline:
            before_s, cpu_before_s = time.monotonic(), self.cpu_s
            time.sleep(_QUIET_LOOK_S)
            share = (self.cpu_s - cpu_before_s) / (time.monotonic() - before_s)
            quiet = quiet + 1 if share < _QUIET_CORE_SHARE else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """By force: a folder that is about to be removed needs no order."""
        for broker_id in list(self.brokers):
            self.kill(broker_id)


class PenstockCluster(Cluster):
    """With meta servers inside the brokers. `settings` are those of BrokerConfig."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__()
        config = BrokerConfig(data=str(folder), listen=("127.0.0.1:0",), **settings)
        plan = prepare(config, BROKERS)
        write_kept(config.data, plan.kept)
        self.configs = {broker.broker_id: broker for broker in plan.brokers}
        try:
            self.start(self.configs)
        except BaseException:
            self.__exit__()
            raise

    def start(self, ids: Iterable[int]) -> None:
        starting = {broker_id: self._launch(broker_id) for broker_id in ids}
        for broker_id, process in starting.items():
            self.brokers[broker_id] = servers.wait_until_it_listens(process)
        self.brokers = dict(sorted(self.brokers.items()))

    def _launch(self, broker_id: int) -> subprocess.Popen[bytes]:
        program = broker_program(self.configs[broker_id], "error")
        return servers.launch(program.command, program.environment)

    def create_topic(
        self, topic: str, partitions: int = 1, replicas: int = BROKERS, durability: str = "os"
    ) -> None:
        config = {
            "durability": durability,
            "min_insync_replicas": str(min(replicas, MIN_INSYNC_REPLICAS)),
        }
        request = messages.CreateTopicRequest(
            name=topic, partitions=partitions, replicas=replicas, config=config
        )
        deadline = time.monotonic() + _ASK_S_MAX
        while True:
            try:
                self._ask(messages.CALL_CREATE_TOPIC, request.SerializeToString(), None)
                break
            except ServerRefused:
                # The one that is asked may not have heard of all the others yet.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self.wait_until_whole(topic, replicas)

    def led(self, topic: str, ask: int | None = None) -> list[Led]:
        request = messages.DescribeTopicRequest(name=topic).SerializeToString()
        envelope = self._ask(messages.CALL_DESCRIBE_TOPIC, request, ask)
        answer = messages.DescribeTopicResponse.FromString(envelope)
        return [Led(each.leader, frozenset(each.in_sync)) for each in answer.partitions]

    def _ask(self, call: int, request: bytes, broker_id: int | None) -> bytes:
        server = self.brokers[min(self.brokers) if broker_id is None else broker_id]
        wire = NativeWire()
        with socket.create_connection(server.address, timeout=_ASK_S_MAX) as asking:
            asking.sendall(wire.call(call, 1, request))
            with asking.makefile("rb") as answers:
                head = bytearray(answers.read(12))
                body_bytes = int.from_bytes(head[8:12], "big")
                frame = head + answers.read(body_bytes)
        wire.answer_bytes(frame, 0)
        return bytes(frame[16 : 16 + int.from_bytes(frame[12:16], "big")])


def leaders_of(cluster: Cluster, topic: str) -> Mapping[int, list[int]]:
    """The partitions that each broker leads."""
    found: dict[int, list[int]] = {}
    for number, led in enumerate(cluster.led(topic)):
        found.setdefault(led.leader, []).append(number)
    return found
