"""`penstock up`: one broker in the foreground, until a signal ends it.

It gathers the settings, prints one line when clients may connect, and leaves in order: the first
SIGTERM or SIGINT stops the broker, a second one ends the process at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock import __version__
from penstock.cli import settings
from penstock.cli.runtime import run
from penstock.model.errors import InvalidConfig

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig


class LogLevel(StrEnum):
    """How much the broker tells on the standard error."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def up(
    data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="The folder that holds everything (penstock-data)."),
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="HOST:PORT, [V6]:PORT or unix:PATH; may be repeated (127.0.0.1:9092).",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="PENSTOCK_CONFIG", help="Settings, as TOML."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting; may be repeated."),
    ] = None,
    log_level: Annotated[
        LogLevel,
        typer.Option(
            metavar="LEVEL",
            envvar="PENSTOCK_LOG_LEVEL",
            help="What to tell on stderr: debug, info, warning or error.",
        ),
    ] = LogLevel.INFO,
) -> None:
    """Run a broker.

    Settings come from flags, then PENSTOCK_... variables, then the file; an unknown one is an
    error. Sizes may be written as 64MiB, times as 72h. All of them: docs/configuration.md.

    \b
    Examples:
      penstock up
      penstock up --data /var/lib/penstock --listen 0.0.0.0:9092
      penstock up --set partitions_default=4 --set topic_defaults.retention_ms=7d
      PENSTOCK_TOPIC_DEFAULTS__DURABILITY=os penstock up --config penstock.toml
    """
    flags = [settings.split_assignment(assignment) for assignment in set_ or []]
    flags += [("data", data)] if data is not None else []
    flags += [("listen", address) for address in listen or []]
    text = _read(config) if config is not None else ""
    broker_config = settings.load(
        flags=flags, environment=os.environ, file_text=text, file_name=str(config)
    )
    logging.basicConfig(
        stream=sys.stderr,
        level=log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
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

    ending = asyncio.Event()

    def on_signal() -> None:
        if ending.is_set():
            os._exit(1)  # asked twice: what was acknowledged is on the disk already
        ending.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    async with Broker(config) as broker:
        print(_banner(config, broker.addresses), flush=True)
        await ending.wait()


def _banner(config: BrokerConfig, addresses: list[str]) -> str:
    where = f"broker {config.broker_id} · listening on {', '.join(addresses)}"
    return f"penstock {__version__} · {where} · data {config.data}"
