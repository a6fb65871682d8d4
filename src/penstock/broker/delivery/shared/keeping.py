"""How shared groups stand, kept by the coordinator of groups, however often it has to be asked.

Not what is kept, nor what follows from it (`partition`). The invariants: a state that the
coordinator may still take is tried again, less often as that lasts; what is told of it grows with
time, not with attempts, and not with how many groups wait (`replication.disk.refusals`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.model.errors import PenstockError, StaleTerm
from penstock.replication.disk.refusals import Refusals

Write = Callable[[bytes], Awaitable[None]]
"""Asks the coordinator once."""

# Between two tries, while the coordinator is being elected or read; longer where that lasts, as
# with a full disk: to what has passed about half is added.
_RETRY_S: Final = 0.1
_RETRY_GROWTH: Final = 1.5
_RETRY_S_MAX: Final = 1.0
# Then it is known whether other groups are refused still.
_OVER_S: Final = 3.5


class Keeper:
    """One per broker. All calls come from the event loop."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._refusals = Refusals("What shared groups have settled")

    async def keep(self, write: Write, state: bytes) -> None:
        """PenstockError if the coordinator does not take it, and never would."""
        wait_s = _RETRY_S
        while True:
            try:
                await write(state)
                break
            except StaleTerm:
                raise
            except PenstockError as error:
                if not error.retriable:
                    raise
                if wait_s == _RETRY_S_MAX:  # an election is over sooner, and nothing to tell of
                    self._refusals.refused(error, self._now_ms())
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * _RETRY_GROWTH, _RETRY_S_MAX)
        if self._refusals.refusals:
            self._taken()
            asyncio.get_running_loop().call_later(_OVER_S, self._taken)

    def _taken(self) -> None:
        self._refusals.taken(self._now_ms())
