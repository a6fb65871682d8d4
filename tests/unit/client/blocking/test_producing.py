"""Producers and staged writes without an event loop."""

from __future__ import annotations

import pytest

from penstock.client.blocking.client import BlockingClient
from penstock.client.producing.staged_write import StagedAttempt
from penstock.model.errors import BatchTooLarge, ClientClosed
from penstock.protocol import penstock_pb2 as pb
from penstock.records import build_batch
from tests.kit.client.fake_broker import FakeBroker


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


def test_a_producer_may_give_up(mq: BlockingClient) -> None:
    producer = mq.producer(linger_ms=60_000)
    mq.publish("orders", b"so that its route is known")
    producer.send("orders", b"never")
    producer.abort()
    with pytest.raises(ClientClosed):
        producer.send("orders", b"after")
    assert producer.errors == ()
