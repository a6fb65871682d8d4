"""A cluster of real broker processes for tests, planned as `penstock up --brokers N` plans it, but
watched by nobody: what is killed stays dead until the test starts it again.

Logs are kept in the test's folder. The invariant: no process outlives the `with`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any, Self

from penstock.broker.config import META, BrokerConfig
from penstock.cli.local_cluster.child import READY
from penstock.cli.local_cluster.command import broker_program, prepare
from penstock.cli.local_cluster.kept import write_kept
from penstock.registry.meta_address import SCHEME
from tests.kit.processes.proxy import Network

SECONDS_MAX = 30


class Cluster:
    """`with Cluster(tmp_path) as cluster`: three brokers, ready, meta servers inside them.

    `registry` names another registry; `settings` are those of `BrokerConfig`, for each broker. With
    `is_started=False` nothing is started, and `start` starts one broker, `start_all` all of them.
    With a `network`, brokers and clients reach each broker over it, by its number. `environment` is
    what the brokers' processes have besides ours.
    """

    def __init__(
        self,
        folder: Path,
        brokers: int = 3,
        *,
        registry: str = "",
        is_started: bool = True,
        log_level: str = "info",
        network: Network | None = None,
        environment: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        config = BrokerConfig(
            data=str(folder / "cluster"), listen=("127.0.0.1:0",), registry=registry, **settings
        )
        plan = prepare(config, brokers)
        write_kept(config.data, plan.kept)
        self.configs = {broker.broker_id: broker for broker in plan.brokers}
        self._is_started = is_started
        self._log_level = log_level
        self._environment = dict(environment or {})
        self._logs = folder / "logs"
        self._logs.mkdir(exist_ok=True)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        # Where in its log a broker's present life begins.
        self._log_starts: dict[int, int] = {}
        if network is not None:
            self._reach_over(network)

    def __enter__(self) -> Self:
        if self._is_started:
            try:
                self.start_all()
            except BaseException:
                self.kill_all()
                raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill_all()

    @property
    def ids(self) -> list[int]:
        return sorted(self.configs)

    @property
    def addresses(self) -> dict[int, str]:
        """Where each broker is reached, alive or not: the same in all its lives."""
        return {
            broker_id: config.advertise or config.listen[0]
            for broker_id, config in self.configs.items()
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    def data(self, broker_id: int) -> Path:
        return Path(self.configs[broker_id].data)

    def log(self, broker_id: int) -> str:
        """All that the broker has written, in all its lives."""
        path = self._log_path(broker_id)
        return path.read_text(errors="replace") if path.exists() else ""

    def process_id(self, broker_id: int) -> int:
        return self._processes[broker_id].pid

    def is_running(self, broker_id: int) -> bool:
        process = self._processes.get(broker_id)
        return process is not None and process.poll() is None

    def start(self, broker_id: int, *, is_awaited: bool = True, **settings: Any) -> None:
        """Start a broker that does not run, perhaps with other settings, for this life only."""
        assert not self.is_running(broker_id), f"broker {broker_id} runs already"
        config = replace(self.configs[broker_id], **settings)
        program = broker_program(config, self._log_level)
        path = self._log_path(broker_id)
        self._log_starts[broker_id] = path.stat().st_size if path.exists() else 0
        with path.open("ab") as log:
            self._processes[broker_id] = subprocess.Popen(
                program.command,
                env={**program.environment, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if is_awaited:
            self.wait_ready(broker_id)

    def start_all(self) -> None:
        """Start all that do not run: at the same time, since they wait for one another."""
        started = [broker_id for broker_id in self.ids if not self.is_running(broker_id)]
        for broker_id in started:
            self.start(broker_id, is_awaited=False)
        for broker_id in started:
            self.wait_ready(broker_id)

    def wait_ready(self, broker_id: int, seconds_max: float = SECONDS_MAX) -> None:
        deadline = time.monotonic() + seconds_max
        while READY not in self._present_log(broker_id):
            assert self.is_running(broker_id), f"it ended: {self._present_log(broker_id)[-2000:]}"
            assert time.monotonic() < deadline, f"not ready: {self._present_log(broker_id)[-2000:]}"
            time.sleep(0.01)

    def kill(self, broker_id: int) -> None:
        """SIGKILL; also of one that is stopped."""
        self._processes[broker_id].kill()
        self._processes[broker_id].wait(SECONDS_MAX)

    def kill_all(self) -> None:
        """All at once."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait(SECONDS_MAX)

    def terminate(self, broker_id: int) -> int:
        """SIGTERM, an orderly end; the exit code."""
        self._processes[broker_id].terminate()
        return self._processes[broker_id].wait(SECONDS_MAX)

    def stop(self, broker_id: int) -> None:
        """SIGSTOP: it holds its connections, and does nothing any more when this returns."""
        process_id = self.process_id(broker_id)
        os.kill(process_id, signal.SIGSTOP)
        # The last of its threads may be some way behind the signal.
        while any(
            Path(thread, "stat").read_text().rpartition(")")[2].split()[0] != "T"
            for thread in glob(f"/proc/{process_id}/task/*")
        ):
            time.sleep(0.001)

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""
        os.kill(self.process_id(broker_id), signal.SIGCONT)

    def wipe(self, broker_id: int) -> None:
        """Remove all that a broker has, which does not run."""
        assert not self.is_running(broker_id), f"broker {broker_id} runs"
        shutil.rmtree(self.data(broker_id))

    def _reach_over(self, network: Network) -> None:
        fronts = {
            broker_id: network.front(broker_id, config.listen[0])
            for broker_id, config in self.configs.items()
        }
        for broker_id, config in self.configs.items():
            registry = config.registry
            if META in config.roles:
                registry = SCHEME + ",".join(f"{each}@{front}" for each, front in fronts.items())
            self.configs[broker_id] = replace(
                config, advertise=fronts[broker_id], registry=registry
            )
        network.processes = lambda: {
            broker_id: process.pid for broker_id, process in self._processes.items()
        }

    def _log_path(self, broker_id: int) -> Path:
        return self._logs / f"broker-{broker_id}.log"

    def _present_log(self, broker_id: int) -> str:
        with self._log_path(broker_id).open("rb") as log:
            log.seek(self._log_starts[broker_id])
            return log.read().decode(errors="replace")
