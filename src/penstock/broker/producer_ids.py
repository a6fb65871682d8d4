"""Producer ids for idempotent producers: taken from the registry in blocks, handed out singly.

The invariant: no id is handed out twice, also across restarts; what is left of a block is lost.
"""

from __future__ import annotations

import asyncio
from typing import Final

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
