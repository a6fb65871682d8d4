"""What the client's tests share: a scripted broker, and a client that does not wait long."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from penstock.client.client import Client, connect
from tests.kit.client.fake_broker import FakeBroker


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker() as running:
        yield running


@pytest.fixture
async def mq(broker: FakeBroker) -> AsyncIterator[Client]:
    async with connect(broker.address, retry_backoff_ms=1, retry_backoff_ms_max=2) as client:
        yield client
