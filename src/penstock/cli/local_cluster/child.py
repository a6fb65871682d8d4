"""One child process that is kept running: started, watched, told of, started again.

What it is (a broker, ZooKeeper) is its command's business. The invariants: the process ends with
us, whatever ends us (`leash`); it is started again only if it has been ready before, since one
that never was has something wrong with its settings; and after `stop` there is no process.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.cli.local_cluster.log_lines import Lines
from penstock.cli.local_cluster.restarts import Restarts
from penstock.model.errors import UnavailableError

READY: Final = "listening on "
# How commands of ours say why they end; it is told when the child's end is.
_LAST_WORD: Final = "error: "
# A line of a log, ours or ZooKeeper's, that is no reason to end. One that is of no log may be the
# end of a traceback.
_HARMLESS: Final = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ \W*(\[.*?\] - )?(DEBUG|INFO|WARN|WARNING)\b"
)
_LAST_WORDS_LENGTH_MAX: Final = 500
_LEASH: Final = str(Path(__file__).with_name("leash.py"))
_READ_BYTES: Final = 64 * 1024
_PROBE_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run, and how to know that it is ready."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    is_ready: Callable[[], Awaitable[bool]] | None = None
    """Asked until it is; None: the program says on its standard output that it is listening."""
    stop_seconds_max: float = 20.0
    """How long an orderly end may take."""


class Child:
    """A program's process, and the next one if that ends."""

    def __init__(
        self,
        program: Program,
        write: Callable[[str], None],
        tell: Callable[[str], None],
        *,
        restarts: Restarts | None,
    ) -> None:
        """write: a line that the program wrote. tell: what happens to it. restarts: None to start
        it once only."""
        self.ready = asyncio.Event()
        """It is, or has been, ready for its clients."""
        self._program = program
        self._write = write
        self._tell = tell
        self._restarts = restarts
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._last_words = ""

    @property
    def process_id(self) -> int | None:
        """Of the process that runs; None between two."""
        return self._process.pid if self._process is not None else None

    async def run(self) -> None:
        """Keep it running until it is stopped, or has ended and is not to be started again.
        UnavailableError if it ends before it has ever been ready."""
        name = self._program.name
        while not self._stopping.is_set():
            begun = asyncio.get_running_loop().time()
            code = await self._live()
            lived_s = asyncio.get_running_loop().time() - begun
            if self._stopping.is_set():
                return
            if not self.ready.is_set():
                words = self._last_words or f"it {how(code)}."
                raise UnavailableError(f"{name} did not start: {words}")
            end = f"{name} {how(code)} {self._quoted()}".rstrip()
            if self._restarts is None:
                self._tell(f"{end} and is not started again.")
                return
            delay_s = self._restarts.delay_s(lived_s)
            self._tell(f"{end} and is started again in {delay_s:g} s.")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_s)

    async def stop(self) -> None:
        """End it in order; if that takes too long, end it."""
        self._stopping.set()
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), self._program.stop_seconds_max)
        except TimeoutError:
            self._tell(f"{self._program.name} does not end and is killed.")
            self.kill()
            await process.wait()

    def kill(self) -> None:
        """End it at once, for good."""
        self._stopping.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _live(self) -> int:
        """One process from its start to its end; how it ended."""
        self._last_words = ""
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _LEASH, str(os.getpid())),
                *self._program.command,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                env=self._program.environment,
                # A group of its own: Ctrl-C goes to us alone, and we end the children in order.
                start_new_session=True,
            )
        except OSError as error:
            # Too little memory, too many processes: the others go on, and this one may later.
            self._last_words = f"The system cannot start it: {error.strerror}."
            return 1
        assert process.stdout is not None
        assert process.stderr is not None
        if self._stopping.is_set():
            process.kill()  # it was stopped before it was there
        probing = asyncio.ensure_future(self._probe())
        try:
            # They end when the process has closed its outputs, which it does by ending.
            await asyncio.gather(
                _read(process.stdout, self._heard), _read(process.stderr, self._heard_error)
            )
            return await process.wait()
        finally:
            probing.cancel()
            if process.returncode is None:
                # Somebody cancelled us.
                process.kill()
                await process.wait()
            self._process = None

    async def _probe(self) -> None:
        if self._program.is_ready is None:
            return
        while not await self._program.is_ready():  # noqa: ASYNC110 - another process
            await asyncio.sleep(_PROBE_SECONDS)
        self._is_ready()

    def _heard(self, line: str) -> None:
        if self._program.is_ready is None and READY in line:
            self._is_ready()
        else:
            self._write(line)

    def _heard_error(self, line: str) -> None:
        is_last = line.startswith(_LAST_WORD)
        if line.strip() and not _HARMLESS.match(line):
            self._last_words = line.removeprefix(_LAST_WORD)[:_LAST_WORDS_LENGTH_MAX]
        if not is_last:
            self._write(line)

    def _is_ready(self) -> None:
        if self.ready.is_set():
            self._tell(f"{self._program.name} runs again.")
        self.ready.set()

    def _quoted(self) -> str:
        return f"({self._last_words.rstrip('.')})" if self._last_words else ""


def how(code: int) -> str:
    """How a process ended, by what the system says of it."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


async def _read(stream: asyncio.StreamReader, heard: Callable[[str], None]) -> None:
    lines = Lines()
    while data := await stream.read(_READ_BYTES):
        for line in lines.feed(data):
            heard(line)
    for line in lines.end():
        heard(line)
