"""A broker as a child process of ours, for the demonstration and the benchmark.

It is started by the same command that a person types, and is ready when it says so. It never
outlives its `async with`.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.cli.settings import without_settings
from penstock.model.errors import UnavailableError

_READY: Final = re.compile(rb"listening on (\S+)")
_START_SECONDS_MAX: Final = 20.0
_STOP_SECONDS_MAX: Final = 20.0


class BrokerProcess:
    """One broker on one data folder, which can be killed and started again on the same port."""

    def __init__(self, data: Path) -> None:
        self.address = "127.0.0.1:0"
        self._data = data
        self._process: Process | None = None

    async def __aenter__(self) -> BrokerProcess:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def process_id(self) -> int:
        assert self._process is not None, "the broker has not been started"
        return self._process.pid

    async def start(self) -> None:
        """Start the broker and return when it answers; UnavailableError with its last words."""
        assert self._process is None or self._process.returncode is not None, "it runs already"
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "penstock.cli", "up"),
            *("--data", str(self._data), "--listen", self.address, "--log-level", "error"),
            stdout=PIPE,
            stderr=PIPE,
            # This one is to have the defaults.
            env=without_settings(os.environ),
            # A group of its own: Ctrl-C goes to us alone, and we end the broker in order.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), _START_SECONDS_MAX)
        except TimeoutError:
            line = b""
        ready = _READY.search(line)
        if ready is None:
            raise UnavailableError(f"The broker did not start: {await self._last_words()}")
        self.address = ready[1].decode()

    async def stop(self) -> None:
        """End it in order, if it runs."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS_MAX)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        assert self._process is not None, "the broker has not been started"
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def _last_words(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        await self.kill()
        text = (await self._process.stderr.read()).decode(errors="replace").strip()
        return text.splitlines()[-1].removeprefix("error: ") if text else "it said nothing."
