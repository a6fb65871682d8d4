"""Tells brokers what the reader has said, in the background: gathered for a moment, call by call.

Not what is told: a committer tells how far a group has come, a settler what became of leased
messages. The invariants: one call is under way at a time, and what is said meanwhile goes with the
next, so a million acknowledgements cost some thousand calls; what could not be told is told again,
and what was refused is raised once, to whoever speaks next.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from penstock.client.concurrency.backoff import Backoff
from penstock.model.errors import PenstockError


class Teller(ABC):
    """Of one ledger."""

    def __init__(self, gather_s: float, backoff: Backoff) -> None:
        """gather_s: how long it waits for more before it tells."""
        self._gather_s = gather_s
        self._backoff = backoff
        self._news = asyncio.Event()
        self._failure: PenstockError | None = None

    def wake(self) -> None:
        """There is something to tell, with what comes in the next moment."""
        self._news.set()

    def raise_failure(self) -> None:
        """Raise what was refused, once."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    async def run(self) -> None:
        """Tell what there is, from time to time; runs until it is cancelled."""
        failures = 0
        while True:
            await self._news.wait()
            await asyncio.sleep(self._gather_s + self._backoff.wait_s(failures))
            self._news.clear()
            try:
                await self._tell()
                failures = 0
            except PenstockError as error:
                if self._passes(error):
                    failures += 1
                    self._news.set()
                else:
                    self._failure = error

    @abstractmethod
    async def _tell(self) -> None:
        """Tell all that there is by now. What fails and passes is kept for the next time."""

    @abstractmethod
    def _passes(self, error: PenstockError) -> bool:
        """Whether it may be told the next time; what is to be logged of it."""
