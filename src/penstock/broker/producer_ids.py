"""Producer ids for idempotent producers: taken from the registry in blocks, handed out singly; and
for the broker's own copies, drawn by lot.

The invariant: no id is handed out twice, also across restarts; what is left of a block is lost.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from penstock.model.limits import COPY_PRODUCER_ID_MIN
from penstock.registry.api import Registry

# So many producers cost one durable write of the registry.
_BLOCK: Final = 1000


class ProducerIds:
    """One per broker."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._reserving = asyncio.Lock()
        self._left = iter(range(0))

    async def take(self) -> int:
        async with self._reserving:
            producer_id = next(self._left, None)
            if producer_id is None:
                self._left = iter(await self._registry.reserve_producer_ids(_BLOCK))
                producer_id = next(self._left)
            return producer_id


def draw_producer_id() -> int:
    """An id that no partition has ever seen. A counted one might have been: by a client that made
    its id up, or before the registry was lost, or in a folder that came from another broker. What
    a copy finds under its id it takes for its own, so that would be rows left out, unnoticed."""
    return COPY_PRODUCER_ID_MIN + secrets.randbelow(2**63 - COPY_PRODUCER_ID_MIN)
