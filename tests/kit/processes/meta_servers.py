"""A real quorum of meta servers for tests: three processes on free ports, each of which can be
stopped, killed and started again on what it kept; and registries of brokers that use it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Self

from penstock.model.errors import PenstockError
from penstock.net.address import parse_address
from penstock.net.channel import connect_channel
from penstock.net.clock import Clock
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.metaserver.client import MetaRegistry
from penstock.registry.metaserver.config import MetaConfig, parse_meta
from tests.kit.net.sockets import free_ports
from tests.kit.registry.facts import registered

# A test does not wait for what a person would.
SESSION_TIMEOUT_MS = 1_500
PATIENCE_MS = 5_000


class MetaProcess:
    """`penstock metaserver` on a folder."""

    def __init__(self, folder: Path, number: int, voters: str) -> None:
        self.number = number
        self.folder = folder
        self._voters = voters
        self._process: subprocess.Popen[str] | None = None

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def address(self) -> str:
        found = re.search(rf"\b{self.number}@([^,]+)", self._voters)
        assert found is not None
        return found[1]

    @property
    def may_vote(self) -> bool:
        identity = self.folder / "data" / "meta-log" / "identity.journal"
        return b'"may_vote":true' in identity.read_bytes()

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "penstock.cli", "metaserver"]
        command += ["--id", str(self.number), "--data", str(self.folder / "data")]
        command += ["--voters", self._voters, "--session-timeout-ms", str(SESSION_TIMEOUT_MS)]
        with (self.folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def wait(self) -> None:
        """Until it listens."""
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        assert f"meta server {self.number} · listening on {self.address}" in ready, (
            ready + (self.folder / "log.txt").read_text()[-2000:]
        )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._end()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0
        self._end()

    def wipe(self) -> None:
        """Its folder is lost."""
        assert self._process is None
        shutil.rmtree(self.folder / "data")

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        status = Path(f"/proc/{self.process.pid}/task")
        while any(
            (thread / "stat").read_text().rpartition(")")[2].split()[0] != "T"
            for thread in status.iterdir()
        ):
            time.sleep(0.001)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _end(self) -> None:
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._process = None


class MetaQuorum:
    """Implements `tests.kit.registry.contract.Cluster`. `with` starts and ends the servers."""

    def __init__(self, folder: Path, servers: int = 3) -> None:
        ports = free_ports(servers)
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(ports, 1))
        self.config: MetaConfig = replace(parse_meta(f"meta://{voters}"), patience_ms=PATIENCE_MS)
        self.servers = {
            number: MetaProcess(folder / str(number), number, voters)
            for number in range(1, servers + 1)
        }

    def __enter__(self) -> Self:
        """Until all of them vote: before that, one less may be one too few."""
        self.start(*self.servers)
        while not all(server.may_vote for server in self.servers.values()):
            time.sleep(0.02)
        return self

    def __exit__(self, *exception: object) -> None:
        if any(exception):
            for server in self.servers.values():
                sys.stderr.write((server.folder / "log.txt").read_text()[-3000:])
        for server in self.servers.values():
            server.kill()

    def start(self, *numbers: int) -> None:
        for number in numbers:
            self.servers[number].start()
        for number in numbers:
            self.servers[number].wait()

    async def leader(self, beside: int = 0) -> MetaProcess:
        """The one that says it leads, once one does; not the one beside."""
        while True:
            for server in self.servers.values():
                if server.is_running and server.number != beside:
                    with contextlib.suppress(PenstockError):
                        said = await who_leads(server.address)
                        if said == server.number:
                            return server
            await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def opened(
        self, broker_id: int = 0, *, clock: Clock | None = None
    ) -> AsyncIterator[MetaRegistry]:
        """A registry, with its broker registered if it has an id."""
        registry = MetaRegistry(self.config, f"cluster of {broker_id}", clock=clock)
        async with registered(registry, broker_id):
            yield registry


async def who_leads(address: str) -> int:
    """What the server says."""
    channel = await connect_channel(parse_address(address), timeout_s=1)
    try:
        response, _ = await channel.call(calls.META_LEADER, pb.MetaLeaderRequest(), timeout_s=1)
        return response.leader
    finally:
        channel.close()
