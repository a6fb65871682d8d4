"""The command `penstock`: which commands there are, and how errors reach people."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from penstock import __version__
from penstock.cli import (
    bench,
    clients,
    cluster,
    consume,
    dead_letters,
    delayed,
    demo,
    groups,
    inspect,
    metaserver,
    offsets,
    pipeline,
    produce,
    request,
    schedules,
    topics,
    up,
)
from penstock.cli.output import fail
from penstock.model.errors import PenstockError
from penstock.spark.errors import NOT_INSTALLED, is_not_installed

app = typer.Typer(
    help="A durable message queue: start a broker with `penstock up`, see it work with "
    "`penstock demo`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help is plain text, the same on a terminal and in a pipe
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(up.up)
app.add_typer(topics.app, name="topics")
app.add_typer(cluster.app, name="cluster")
app.add_typer(clients.app, name="clients")
app.command()(produce.produce)
app.command()(consume.consume)
app.command()(request.request)
app.add_typer(groups.app, name="groups")
app.command()(groups.subscriptions)
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(offsets.app, name="offsets")
app.add_typer(delayed.app, name="delayed")
app.add_typer(schedules.app, name="schedules")
app.command()(inspect.inspect)
app.add_typer(pipeline.app, name="pipeline")
app.command()(bench.bench)
app.command()(demo.demo)
app.command()(metaserver.metaserver)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except PenstockError as error:
        fail(error.message)
    except ModuleNotFoundError as error:
        # Commands import Spark when they run, and some of them in many places.
        if not is_not_installed(error):
            raise
        fail(NOT_INSTALLED)
