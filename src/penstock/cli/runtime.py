"""How a command runs: on an event loop, with a client if it needs one, until it is interrupted."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from penstock.cli.output import FAILED, INTERRUPTED
from penstock.client.concurrency.loop_thread import loop_factory
from penstock.model.errors import UnavailableError

if TYPE_CHECKING:
    from penstock.client.client import Client

Result = TypeVar("Result")

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
Bootstrap = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        envvar="PENSTOCK_BOOTSTRAP",
        help="A broker to ask first; several with commas between.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON, for scripts.")]


def run(main: Coroutine[object, object, Result], *, on_uvloop: bool = True) -> Result:
    """Run it to its end, on uvloop where there is one. Ctrl-C ends it as scripts expect."""
    try:
        with asyncio.Runner(loop_factory=loop_factory() if on_uvloop else None) as runner:
            return runner.run(main)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def run_with_client(
    bootstrap: str, work: Callable[[Client], Coroutine[object, object, Result]]
) -> Result:
    """Run the work with a client that has reached a broker."""

    async def main() -> Result:
        async with connected(bootstrap) as mq:
            return await work(mq)

    # uvloop makes what it watches non-blocking, for whoever else has it open too. These commands
    # watch the standard input and output, which belong to the shell.
    return run(main(), on_uvloop=False)


def with_client(work: Callable[..., Coroutine[object, object, None]]) -> Callable[..., None]:
    """The command that does this, given a client that has reached a broker: `--bootstrap` is one of
    its options. Not for commands that have to look at others before there is a client."""

    @wraps(work)
    def command(bootstrap: str, **options: Any) -> None:
        run_with_client(bootstrap, lambda mq: work(mq, **options))

    # What Typer reads. Commands have the type of the client for type checkers alone.
    told = signature(work, eval_str=True, locals={"Client": object})
    _, *options = (each.replace(kind=Parameter.KEYWORD_ONLY) for each in told.parameters.values())
    at = len(options) - ("as_json" in told.parameters)  # which is the last one everywhere
    where = Parameter(
        "bootstrap", Parameter.KEYWORD_ONLY, default=DEFAULT_BOOTSTRAP, annotation=Bootstrap
    )
    options.insert(at, where)
    command.__annotations__ = {each.name: each.annotation for each in options}
    vars(command)["__signature__"] = told.replace(parameters=options)
    return command


@asynccontextmanager
async def connected(bootstrap: str) -> AsyncIterator[Client]:
    """A client that has reached a broker, or one sentence about none being there."""
    from penstock.client.client import connect

    async with AsyncExitStack() as stack:
        try:
            mq = await stack.enter_async_context(connect(bootstrap, client_name="penstock-cli"))
        except UnavailableError:
            raise UnavailableError(
                f"No broker answers at {bootstrap}: start one with `penstock up`."
            ) from None
        yield mq


async def until_interrupted(work: Coroutine[object, object, None]) -> bool:
    """Do the work until its end or until SIGINT or SIGTERM; whether it came to its end.

    Whoever calls goes on and closes things in order: what was accepted is flushed or committed.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await asyncio.wait([task])
    finally:
        # A second signal ends the program although it has not closed things.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        task.cancel()
    if task.cancelled():
        return False
    task.result()
    return True


def told_to_end(kill: Callable[[], None] | None = None) -> asyncio.Event:
    """Is set by the first SIGTERM or SIGINT. The second ends the process at once, when `kill` has
    returned: what was acknowledged is on the disk already."""
    ending = asyncio.Event()

    def on_signal() -> None:
        if ending.is_set():
            if kill is not None:
                kill()
            os._exit(FAILED)
        ending.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return ending


def log_to_stderr(level: str) -> None:
    """What a server tells beside its one line on the standard output."""
    logging.basicConfig(
        stream=sys.stderr,
        level=level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
