"""A broker in a thread of its own, and a client of it without an event loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.blocking.client import BlockingClient, connect_blocking
from penstock.client.concurrency.loop_thread import LoopThread
from tests.kit.client.fake_broker import FakeBroker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """A broker with a loop of its own: the test's thread blocks."""
    with LoopThread() as thread:
        running = FakeBroker()
        thread.run(running.start())
        yield running
        thread.run(running.stop())


@pytest.fixture
def mq(broker: FakeBroker) -> Iterator[BlockingClient]:
    with connect_blocking(broker.address) as client:
        yield client
