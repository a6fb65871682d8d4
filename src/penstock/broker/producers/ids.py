"""Producer ids for idempotent producers: taken from the registry in blocks, handed out singly; and
for the broker's own copies, drawn by lot.

The invariants: no id is handed out twice, also across restarts (what is left of a block is lost);
and in a cluster there is half a block at hand, so that producers can begin while the registry is
away.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from typing import Final

from penstock.model.errors import PenstockError
from penstock.model.limits import COPY_PRODUCER_ID_MIN
from penstock.registry.api import Registry

logger = logging.getLogger(__name__)

# So many producers cost one durable write of the registry.
_BLOCK: Final = 1000
# Between two tries to have more, while the registry is away.
_RETRY_S: Final = 1.0


class ProducerIds:
    """One per broker."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._left: deque[int] = deque()
        self._reserving = asyncio.Lock()
        self._is_ahead = False
        self._stocking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on have ids before they are asked for."""
        self._is_ahead = True
        self._stock()

    async def stop(self) -> None:
        self._is_ahead = False
        if self._stocking is not None:
            self._stocking.cancel()
            await asyncio.gather(self._stocking, return_exceptions=True)

    async def take(self) -> int:
        while not self._left:
            await self._reserve()
        producer_id = self._left.popleft()
        self._stock()
        return producer_id

    @property
    def _is_short(self) -> bool:
        return len(self._left) < _BLOCK // 2

    async def _reserve(self) -> None:
        async with self._reserving:
            if self._is_short:
                self._left.extend(await self._registry.reserve_producer_ids(_BLOCK))

    def _stock(self) -> None:
        if self._is_ahead and self._is_short and self._stocking is None:
            self._stocking = asyncio.get_running_loop().create_task(self._keep_stock())

    async def _keep_stock(self) -> None:
        try:
            while self._is_short:
                try:
                    await self._reserve()
                except PenstockError as error:
                    logger.debug("No more producer ids for now: %s", error)
                    await asyncio.sleep(_RETRY_S)
        finally:
            self._stocking = None


def draw_producer_id() -> int:
    """An id that no partition has ever seen. A counted one might have been: by a client that made
    its id up, or before the registry was lost, or in a folder that came from another broker. What
    a copy finds under its id it takes for its own, so that would be rows left out, unnoticed."""
    return COPY_PRODUCER_ID_MIN + secrets.randbelow(2**63 - COPY_PRODUCER_ID_MIN)
