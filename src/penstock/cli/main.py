"""The command `penstock`: which commands there are, and how errors reach people.

Of the commands' modules only that of the command asked for is imported: a command line is a process
each time, and most of what a short one costs is imports. All are, where all of them are shown.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Annotated, Final

import typer

from penstock import __version__
from penstock.cli.output import fail
from penstock.model.errors import PenstockError
from penstock.spark.errors import NOT_INSTALLED, is_not_installed

# Each with the module that has a function of its name; in the order in which help shows them.
_COMMANDS: Final = {
    "up": "commands.up",
    "produce": "commands.produce",
    "consume": "commands.consume",
    "request": "commands.request",
    "subscriptions": "commands.groups",
    "inspect": "commands.inspect",
    "bench": "commands.bench",
    "demo": "demo.command",
    "metaserver": "commands.metaserver",
}
# Each with the module whose `app` has its commands.
_GROUPS: Final = {
    "topics": "commands.topics",
    "cluster": "commands.cluster",
    "clients": "commands.clients",
    "groups": "commands.groups",
    "dead-letters": "commands.dead_letters",
    "offsets": "commands.offsets",
    "delayed": "commands.delayed",
    "schedules": "commands.schedules",
    "pipeline": "pipeline.command",
}


def make_app(words: Sequence[str] = ()) -> typer.Typer:
    """The application for a command line: with the command that its first word names, or with all
    of them."""
    app = typer.Typer(
        help="A durable message queue: start a broker with `penstock up`, see it work with "
        "`penstock demo`.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # help is plain text, the same on a terminal and in a pipe
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    first = words[0] if words else ""
    is_known = first in _COMMANDS or first in _GROUPS
    for name, module in _COMMANDS.items():
        if first == name or not is_known:
            app.command(name)(getattr(_imported(module), name))
    for name, module in _GROUPS.items():
        if first == name or not is_known:
            app.add_typer(_imported(module).app, name=name)
    return app


def _imported(module: str) -> ModuleType:
    return import_module(f"penstock.cli.{module}")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"penstock {__version__}")
        raise typer.Exit


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
        make_app(sys.argv[1:])()
    except PenstockError as error:
        fail(error.message)
    except ModuleNotFoundError as error:
        # Commands import Spark when they run, and some of them in many places.
        if not is_not_installed(error):
            raise
        fail(NOT_INSTALLED)
