"""Waits until the brokers of a cluster see each other, so that whichever is asked can use all.

Not whether they run: the supervisor knows. The invariant: a broker that does not answer, because it
died since, holds nobody up for longer than the patience; the cluster is of use without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final

from penstock.client.client import Client, connect
from penstock.model.errors import PenstockError

_PATIENCE_S: Final = 30.0
_LOOK_S: Final = 0.05


async def until_acquainted(addresses: Mapping[int, str], patience_s: float = _PATIENCE_S) -> None:
    """Return when each of the brokers, by its address, knows all of them to be alive."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            await asyncio.gather(*(_sees(each, addresses.keys()) for each in addresses.values()))


async def _sees(address: str, brokers: Collection[int]) -> None:
    while True:
        with suppress(PenstockError):
            async with connect(address) as client:
                while not await _knows_all(client, brokers):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(_LOOK_S)
                return
        await asyncio.sleep(_LOOK_S)


async def _knows_all(client: Client, brokers: Collection[int]) -> bool:
    found = await client.cluster.status(moving_only=True)
    return {each.broker for each in found.brokers if each.is_alive} >= set(brokers)
