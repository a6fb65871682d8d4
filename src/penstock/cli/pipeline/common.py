"""What the commands of `penstock pipeline` share: flags, and how errors reach people."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Final

import typer

from penstock.cli.output import INTERRUPTED, fail, note
from penstock.model.errors import PenstockError
from penstock.spark.errors import is_not_installed

Master = Annotated[
    str,
    typer.Option(
        metavar="MASTER",
        envvar="PENSTOCK_SPARK_MASTER",
        help="Where Spark runs: local[*], spark://HOST:PORT, yarn, k8s://HOST:PORT.",
    ),
]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show Spark's own log, and tracebacks of errors.")
]
MASTER_DEFAULT: Final = "local[*]"


@contextmanager
def one_sentence(*, is_debug: bool) -> Iterator[None]:
    """Errors of Spark and of the user's own steps end the command with one sentence, as ours do."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except typer.Exit:
        raise
    # Whatever Spark raises: it has no base of its own for all of them.
    except Exception as error:
        if is_debug:
            traceback.print_exception(error)
        if isinstance(error, PenstockError) or is_not_installed(error):
            raise
        from penstock.spark.pipeline.running.errors import sentence

        fail(sentence(error))


class Stopping:
    """Whether a person wants it to end: with the first Ctrl-C (or SIGTERM) when the work at hand is
    done, with the second at once."""

    def __init__(self) -> None:
        self.is_asked = False

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Within it, signals ask."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True
        note("Ending when this batch is done; once more ends it now.")
