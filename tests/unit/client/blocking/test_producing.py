"""Staged writes without an event loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.blocking.client import BlockingClient, connect_blocking
from penstock.client.concurrency.loop_thread import LoopThread
from penstock.client.producing.staged_write import StagedAttempt
from penstock.model.errors import BatchTooLarge
from penstock.protocol import penstock_pb2 as pb
from penstock.records import build_batch
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


def test_stage_and_commit(broker: FakeBroker, mq: BlockingClient) -> None:
    with mq.staged_write("w", 3, "a") as staged:
        for number in range(10):
            staged.stage("orders", 0, bytearray(build_batch([(None, b"%d" % number)])))
        attempt = staged.flush()
    assert attempt == StagedAttempt(staged.attempt, 10, 10)
    assert len(broker.staged["w", 3, "a"]) == 10
    assert not mq.commit_staged("w", 3, [attempt], last=True).already
    assert mq.committed_epoch("w") == 3


def test_abort(broker: FakeBroker, mq: BlockingClient) -> None:
    with mq.staged_write("w", 0) as staged:
        staged.stage("orders", 0, bytearray(build_batch([(None, b"a")])))
        attempt = staged.flush()
    mq.abort_staged("w", 0, [attempt])
    assert broker.staged == {}


def test_errors_are_raised_where_the_caller_is(broker: FakeBroker, mq: BlockingClient) -> None:
    broker.script[pb.CALL_STAGE].append(BatchTooLarge())
    with mq.staged_write("w", 0) as staged:
        staged.stage("orders", 0, bytearray(build_batch([(None, b"a")])))
        with pytest.raises(BatchTooLarge):
            staged.flush()
