"""A local cluster is ready when its brokers see each other."""

from __future__ import annotations

import asyncio

from penstock.cli.local_cluster.acquainted import until_acquainted
from penstock.testing import broker


async def test_it_waits_for_a_broker_that_the_others_do_not_see() -> None:
    with broker() as address:
        await until_acquainted({1: address})
        waiting = asyncio.ensure_future(until_acquainted({1: address, 2: address}))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done
        waiting.cancel()


async def test_one_that_never_answers_does_not_hold_it_up_for_ever() -> None:
    await until_acquainted({1: "127.0.0.1:1"}, patience_s=0.1)
