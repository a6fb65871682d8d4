"""`penstock up --brokers N`: plans the cluster, runs its brokers, and shows what they say.

The first SIGTERM or SIGINT stops the brokers and then what they need; a second one kills all. The
standard output has the banner alone, for scripts that wait for it; the rest goes to the standard
error.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from penstock import __version__
from penstock.broker.config import BrokerConfig
from penstock.cli import settings
from penstock.cli.local_cluster.acquainted import until_acquainted
from penstock.cli.local_cluster.child import Child, Program
from penstock.cli.local_cluster.kept import read_kept, write_kept
from penstock.cli.local_cluster.log_lines import LogPrinter
from penstock.cli.local_cluster.plan import ZOOKEEPER_FOLDER, Plan, make_plan
from penstock.cli.local_cluster.ports import check_free, free_port
from penstock.cli.local_cluster.restarts import Restarts
from penstock.cli.local_cluster.supervisor import Supervisor
from penstock.cli.local_cluster.zookeeper import is_serving, zookeeper_command
from penstock.cli.runtime import run, told_to_end
from penstock.model.errors import UnavailableError

_OURSELVES: Final = "penstock"
_ZOOKEEPER: Final = "zookeeper"
# Beyond the time that a broker gives its clients: what it has to write before it ends.
_STOP_SECONDS_MORE: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCluster:
    """What the flags ask for."""

    config: BrokerConfig
    """Of the first broker; the others differ by id, ports and folder."""
    brokers: int
    with_zookeeper: bool
    is_restarting: bool
    log_level: str


def run_cluster(cluster: LocalCluster) -> None:
    """Until a signal ends it, or with --no-restart its last broker."""
    data = cluster.config.data
    plan = prepare(cluster.config, cluster.brokers, with_zookeeper=cluster.with_zookeeper)
    stages = [[broker_program(broker, cluster.log_level) for broker in plan.brokers]]
    if plan.zookeeper is not None:
        stages.insert(0, [_zookeeper_program(data, plan.zookeeper.port)])
    # From here on the folder is a cluster's. Before, nothing was written.
    write_kept(data, plan.kept)
    # The standard loop: there is nothing to gain, and it leaves the terminal as it is.
    run(
        _serve(stages, plan, _banner(plan, data), is_restarting=cluster.is_restarting),
        on_uvloop=False,
    )


def prepare(config: BrokerConfig, brokers: int, *, with_zookeeper: bool = False) -> Plan:
    """A plan that can be carried out: its ports are free."""
    plan = make_plan(
        config,
        brokers,
        with_zookeeper=with_zookeeper,
        kept=read_kept(config.data),
        choose_port=free_port,
    )
    check_free(plan.addresses)
    return plan


def broker_program(config: BrokerConfig, log_level: str) -> Program:
    """A broker by the same command that a person types. What tells the brokers apart is in its
    arguments, for whoever lists processes; the rest, and a password, is not."""
    arguments = [("--broker-id", str(config.broker_id)), ("--data", config.data)]
    arguments += [("--listen", address) for address in config.listen]
    arguments += [("--log-level", log_level)]
    command = [sys.executable, "-m", "penstock.cli", "up", *(s for pair in arguments for s in pair)]
    return Program(
        name=f"broker {config.broker_id}",
        command=command,
        environment={**settings.without_settings(os.environ), **settings.as_environment(config)},
        stop_seconds_max=config.shutdown_timeout_ms / 1000 + _STOP_SECONDS_MORE,
    )


def _zookeeper_program(data: str, port: int) -> Program:
    return Program(
        name=_ZOOKEEPER,
        command=zookeeper_command(Path(data) / ZOOKEEPER_FOLDER, port),
        environment=settings.without_settings(os.environ),
        is_ready=partial(is_serving, port),
    )


async def _serve(
    stages: list[list[Program]], plan: Plan, banner: str, *, is_restarting: bool
) -> None:
    names = [_OURSELVES, *(program.name for stage in stages for program in stage)]
    printer = LogPrinter(sys.stderr, names)

    def child(program: Program) -> Child:
        return Child(
            program,
            partial(printer.write, program.name),
            partial(printer.write, _OURSELVES),
            restarts=Restarts() if is_restarting else None,
        )

    supervisor = Supervisor(
        [[child(program) for program in stage] for stage in stages],
        partial(until_acquainted, plan.reached),
    )
    ending = told_to_end(supervisor.kill)
    if not await supervisor.run(ending, lambda: print(banner, flush=True)):
        raise UnavailableError("Every broker has ended: start the cluster again.")


def _banner(plan: Plan, data: str) -> str:
    where = ",".join(broker.listen[0] for broker in plan.brokers)
    count = len(plan.brokers)
    lines = [
        f"penstock {__version__} · {count} broker{'s' if count > 1 else ''} · "
        f"listening on {where} · data {data}"
    ]
    if plan.zookeeper is not None:
        folder = os.path.join(data, ZOOKEEPER_FOLDER)
        lines.append(f"  {_ZOOKEEPER} · {plan.zookeeper} · data {folder}")
    lines += [
        f"  broker {broker.broker_id} · {', '.join(broker.listen)} · data {broker.data}"
        for broker in plan.brokers
    ]
    return "\n".join(lines)
