"""`penstock up`: one broker in the foreground, until a signal ends it; or several, as a cluster.

It gathers the settings, prints one line when clients may connect, and leaves in order: the first
SIGTERM or SIGINT stops the broker, a second one ends the process at once. What several brokers
need is in `cli.local_cluster`, which is loaded only for them.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from penstock import __version__
from penstock.cli import settings
from penstock.cli.local_cluster.kept import check_single
from penstock.cli.runtime import log_to_stderr, run, told_to_end
from penstock.model.errors import InvalidConfig

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig


_Data = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="The folder that holds everything (penstock-data)."),
]
_Listen = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS",
        help="HOST:PORT, [V6]:PORT or unix:PATH; may be repeated (127.0.0.1:9092).",
    ),
]
_Brokers = Annotated[
    int, typer.Option(metavar="N", help="So many brokers on this machine, as one cluster.")
]
_Registry = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="What keeps the cluster's facts: meta://ID@HOST:PORT,... or "
        "zookeeper://HOST:PORT/PATH.",
    ),
]
_WithZooKeeper = Annotated[
    bool, typer.Option("--with-zookeeper", help="Start a ZooKeeper too, as the registry.")
]
_NoRestart = Annotated[
    bool, typer.Option("--no-restart", help="Let a broker of --brokers that died be dead.")
]
_BrokerId = Annotated[
    int | None, typer.Option(metavar="ID", help="The broker's number; of several, the first's.")
]
_Host = Annotated[
    str | None, typer.Option(metavar="NAME", help="What fails with it: its machine, or its rack.")
]
_Config = Annotated[
    Path | None, typer.Option(metavar="FILE", envvar="PENSTOCK_CONFIG", help="Settings, as TOML.")
]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting; may be repeated."),
]
_LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    typer.Option(
        metavar="LEVEL",
        envvar="PENSTOCK_LOG_LEVEL",
        help="What to tell on stderr: debug, info, warning or error.",
    ),
]


def up(
    *,
    data: _Data = None,
    listen: _Listen = None,
    brokers: _Brokers = 1,
    registry: _Registry = None,
    with_zookeeper: _WithZooKeeper = False,
    no_restart: _NoRestart = False,
    broker_id: _BrokerId = None,
    host: _Host = None,
    config: _Config = None,
    set_: _Set = None,
    log_level: _LogLevel = "info",
) -> None:
    """Run a broker, or a cluster on this machine.

    With --brokers each is a process of its own: it listens on the next port after the one before
    (9092, 9093, ...), has the folder broker-ID in the data folder, and is started again if it
    dies. A broker that was there alone becomes the first and keeps its data. Their registry runs
    inside the first three, or the first of fewer, unless another is named.

    Settings come from flags, then PENSTOCK_... variables, then the file; an unknown one is an
    error. Sizes may be written as 64MiB, times as 72h. All of them: docs/configuration.md.

    \b
    Examples:
      penstock up
      penstock up --data /var/lib/penstock --listen 0.0.0.0:9092
      penstock up --brokers 3
      penstock up --brokers 3 --with-zookeeper
      penstock up --broker-id 4 --registry zookeeper://zk1:2181,zk2:2181/penstock
      penstock up --set partitions_default=4 --set topic_defaults.retention_ms=7d
      PENSTOCK_TOPIC_DEFAULTS__DURABILITY=os penstock up --config penstock.toml
    """
    flags = [settings.split_assignment(assignment) for assignment in set_ or []]
    named = {"data": data, "registry": registry, "broker_id": broker_id, "host": host}
    flags += [(name, str(value)) for name, value in named.items() if value is not None]
    flags += [("listen", address) for address in listen or []]
    text = _read(config) if config is not None else ""
    broker_config = settings.load(
        flags=flags, environment=os.environ, file_text=text, file_name=str(config)
    )
    if brokers != 1 or with_zookeeper:
        from penstock.cli.local_cluster.command import LocalCluster, run_cluster

        cluster = LocalCluster(
            config=broker_config,
            brokers=brokers,
            with_zookeeper=with_zookeeper,
            is_restarting=not no_restart,
            log_level=log_level,
        )
        run_cluster(cluster)
        return
    check_single(broker_config)
    log_to_stderr(log_level)
    _allow_many_files()
    _collect_less_often()
    run(_serve(broker_config))


def _read(config: Path) -> str:
    try:
        return config.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidConfig(f"{config} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidConfig(f"{config} is not UTF-8 text: settings are TOML.") from None


def _allow_many_files() -> None:
    """A partition and a connection are a descriptor each; the usual soft limit is 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems call the hard limit infinite and refuse it: then the soft one stays.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _collect_less_often() -> None:
    """Requests leave no cycles behind, but hundreds of them are alive at once: with the usual
    threshold the collector looks at each several times in vain, a tenth of a request's cost."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def _serve(config: BrokerConfig) -> None:
    from penstock.broker.broker import Broker

    ending = told_to_end()
    broker = Broker(config)
    starting = asyncio.ensure_future(broker.start())
    asked = asyncio.ensure_future(ending.wait())
    await asyncio.wait([starting, asked], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        # It may wait long for its registry.
        starting.cancel()
        await asyncio.wait([starting])
        return
    try:
        await starting
        print(_banner(config, broker.addresses), flush=True)
        await asked
    finally:
        asked.cancel()
        await broker.stop()


def _banner(config: BrokerConfig, addresses: list[str]) -> str:
    where = f"broker {config.broker_id} · listening on {', '.join(addresses)}"
    return f"penstock {__version__} · {where} · data {config.data}"
