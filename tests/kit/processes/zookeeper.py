"""A real ZooKeeper for tests, from the jars that PySpark brings: one server or three, on free
ports, each a process that can be killed and started again on what it kept."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any, Self

from kazoo.client import KazooClient

from penstock.cli.local_cluster.zookeeper import zookeeper_command
from penstock.net.clock import Clock
from penstock.registry.zookeeper.client import ZooKeeperRegistry
from penstock.registry.zookeeper.config import ZooKeeperConfig, parse_zookeeper
from tests.kit.net.sockets import free_ports
from tests.kit.registry.facts import registered

START_SECONDS_MAX = 60


class ZooKeeperServer:
    """One process; `with` starts and ends it."""

    def __init__(self, folder: Path, port: int, extra: str = "", number: int = 0) -> None:
        self.port = port
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._command = zookeeper_command(folder, port, extra=extra)
        if number:
            (folder / "data" / "myid").write_text(str(number))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        self.wait()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def start(self) -> None:
        with (self._folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait(self) -> None:
        """Until it serves."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self.mode():
            assert self._process is not None
            assert self._process.poll() is None, (self._folder / "log.txt").read_text()[-2000:]
            assert time.monotonic() < deadline, "ZooKeeper did not start"
            time.sleep(0.02)

    def mode(self) -> str:
        """standalone, leader or follower; empty if it does not serve."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"srvr")
                answer = b""
                while more := connection.recv(4096):
                    answer += more
        except OSError:
            return ""
        _, _, mode = answer.decode().partition("Mode: ")
        return mode.split("\n")[0]

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        # The last of its threads may be some way behind the signal.
        while any(
            Path(thread, "stat").read_text().rpartition(")")[2].split()[0] != "T"
            for thread in glob(f"/proc/{self._process.pid}/task/*")
        ):
            time.sleep(0.001)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


class ZooKeeperEnsemble:
    """Three servers."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(9)
        quorum = "".join(
            f"server.{number}=127.0.0.1:{ports[number + 2]}:{ports[number + 5]}\n"
            for number in (1, 2, 3)
        )
        extra = f"initLimit=20\nsyncLimit=10\n{quorum}"
        self.servers = [
            ZooKeeperServer(folder / str(number), ports[number - 1], extra, number)
            for number in (1, 2, 3)
        ]

    @property
    def address(self) -> str:
        return ",".join(server.address for server in self.servers)

    @property
    def leader(self) -> ZooKeeperServer:
        return next(server for server in self.servers if server.mode() == "leader")

    def __enter__(self) -> Self:
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.wait()
        return self

    def __exit__(self, *exception: object) -> None:
        for server in self.servers:
            server.kill()


def quick(server: str, chroot: str = "", credentials: str = "") -> ZooKeeperConfig:
    """Sessions of a second and short retries: a test does not wait for what a person would."""
    config = parse_zookeeper(f"zookeeper://{credentials}{server}{chroot}")
    return replace(config, session_timeout_ms=1_000, retry_delay_ms=200, retries=3)


@contextlib.asynccontextmanager
async def opened(
    config: ZooKeeperConfig, broker_id: int = 0, *, clock: Clock | None = None
) -> AsyncIterator[ZooKeeperRegistry]:
    """A registry, with its broker registered if it has an id."""
    registry = ZooKeeperRegistry(config, f"cluster of {broker_id}", clock=clock)
    async with registered(registry, broker_id):
        yield registry


@contextlib.contextmanager
def visitor(config: ZooKeeperConfig) -> Iterator[Any]:
    """A client of somebody else, who may write anything into the cluster's znodes."""
    client = KazooClient(hosts=",".join(map(str, config.servers)) + config.chroot)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()
