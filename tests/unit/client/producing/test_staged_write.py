"""Staged batches get to the broker once and in order, whatever happens on the way."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from penstock.client.client import Client, connect
from penstock.client.producing import staged_write
from penstock.client.producing.staged_write import StagedAttempt
from penstock.model.errors import (
    BatchTooLarge,
    Busy,
    ClientClosed,
    DiskFull,
    InvalidBatch,
    InvalidRequest,
    PenstockError,
    StagedBatchesMissing,
    TimedOut,
    UnknownTopic,
)
from penstock.protocol import penstock_pb2 as pb
from penstock.records import build_batch
from tests.kit.client.fake_broker import BREAK, HOLD, LOSE_ANSWER, SWALLOW, FakeBroker

STAGE = pb.CALL_STAGE
COMMIT = pb.CALL_COMMIT_STAGED
ABORT = pb.CALL_ABORT_STAGED


def batch(number: int) -> bytearray:
    return bytearray(build_batch([(None, b"%d" % number)]))


async def stage_all(mq: Client, count: int = 10, attempt: str = "a") -> StagedAttempt:
    async with mq.staged_write("w", 0, attempt) as staged:
        for number in range(count):
            await staged.stage("orders", 0, batch(number))
        return await staged.flush()


def staged_values(broker: FakeBroker, attempt: str = "a") -> list[bytes]:
    return [bytes(data) for _, _, data in broker.staged["w", 0, attempt]]


def expected(count: int = 10) -> list[bytes]:
    return [bytes(batch(number)) for number in range(count)]


async def test_what_is_staged_is_named_and_committed(broker: FakeBroker, mq: Client) -> None:
    broker.partition_count = 3
    async with mq.staged_write("w", 7) as staged:
        await staged.stage("orders", 2, bytearray(build_batch([(None, b"a"), (None, b"b")])))
        await staged.stage("bills", 0, batch(0))
        attempt = await staged.flush()
    assert attempt == StagedAttempt(staged.attempt, 2, 3)
    assert len(staged.attempt) == 32
    assert pickle.loads(pickle.dumps(attempt)) == attempt
    places = [(topic, number) for topic, number, _ in broker.staged["w", 7, staged.attempt]]
    assert places == [("orders", 2), ("bills", 0)], "topics are made where the broker allows it"
    assert await mq.committed_epoch("w") is None
    committed = await mq.commit_staged("w", 7, [attempt])
    assert (committed.already, committed.records) == (False, 5)
    assert (await mq.commit_staged("w", 7, [])).already
    assert await mq.committed_epoch("w") == 7


async def test_every_attempt_has_its_own_name(mq: Client) -> None:
    assert mq.staged_write("w", 0).attempt != mq.staged_write("w", 0).attempt
    assert mq.staged_write("w", 0, "mine").attempt == "mine"


@pytest.mark.parametrize("action", [BREAK, LOSE_ANSWER, Busy(), DiskFull()], ids=str)
@pytest.mark.parametrize("place", [0, 3, 9])
async def test_what_was_not_answered_goes_again_in_order(
    broker: FakeBroker, mq: Client, action: str | PenstockError, place: int
) -> None:
    broker.script[STAGE].extend(["done as usual"] * place + [action])
    assert await stage_all(mq) == StagedAttempt("a", 10, 10)
    assert staged_values(broker) == expected()


async def test_a_broker_that_restarts_is_waited_for(broker: FakeBroker, mq: Client) -> None:
    async with mq.staged_write("w", 0, "a") as staged:
        for number in range(5):
            await staged.stage("orders", 0, batch(number))
        await staged.flush()
        await broker.stop()
        for number in range(5, 10):
            await staged.stage("orders", 0, batch(number))
        flushing = asyncio.create_task(staged.flush())
        await asyncio.sleep(0.01)
        await broker.start()
        assert (await flushing).batches == 10
    assert staged_values(broker) == expected()


async def test_a_broker_that_hangs_is_asked_again(broker: FakeBroker) -> None:
    async with connect(broker.address, request_timeout_ms=50, retry_backoff_ms=1) as mq:
        broker.script[STAGE].append(SWALLOW)
        await stage_all(mq)
    assert staged_values(broker) == expected()


@pytest.mark.parametrize("error", [BatchTooLarge(), StagedBatchesMissing(), UnknownTopic()])
async def test_an_error_that_stays_is_raised_from_then_on(
    broker: FakeBroker, mq: Client, error: PenstockError
) -> None:
    broker.script[STAGE].append(error)
    async with mq.staged_write("w", 0) as staged:
        await staged.stage("orders", 0, batch(0))
        with pytest.raises(type(error)):
            await staged.flush()
        with pytest.raises(type(error)):
            await staged.stage("orders", 0, batch(1))
    assert broker.count(STAGE) == 1


async def test_what_cannot_be_staged_is_not_sent(broker: FakeBroker, mq: Client) -> None:
    broker.partition_count = 2
    async with mq.staged_write("w", 0) as staged:
        with pytest.raises(UnknownTopic, match="no partition 2: it has 2"):
            await staged.stage("orders", 2, batch(0))
        with pytest.raises(UnknownTopic):
            await staged.stage("orders", -1, batch(0))
        with pytest.raises(InvalidBatch):
            await staged.stage("orders", 0, b"nonsense")
        broker.creates_topics = False
        with pytest.raises(UnknownTopic):
            await staged.stage("nowhere", 0, batch(0))
        assert await staged.flush() == StagedAttempt(staged.attempt, 0, 0)
    assert broker.count(STAGE) == 0


async def test_partitions_that_were_added_are_found(broker: FakeBroker, mq: Client) -> None:
    async with mq.staged_write("w", 0) as staged:
        await staged.stage("orders", 0, batch(0))
        broker.create("orders", 2)
        await staged.stage("orders", 1, batch(1))
        assert (await staged.flush()).batches == 2


async def test_so_much_is_on_its_way_and_no_more(
    broker: FakeBroker, mq: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_write, "_FLYING_BYTES_MAX", 3 * len(batch(0)))
    broker.script[STAGE].extend([HOLD] * 4)
    async with mq.staged_write("w", 0, "a") as staged:
        for number in range(3):
            await staged.stage("orders", 0, batch(number))
        fourth = asyncio.create_task(staged.stage("orders", 0, batch(3)))
        await broker.until(lambda: len(broker.held) == 3)
        await asyncio.sleep(0)
        assert not fourth.done()
        broker.release()
        await fourth
        await broker.until(lambda: len(broker.held) == 1)
        broker.release()
        assert (await staged.flush()).batches == 4
    assert staged_values(broker) == expected(4)


async def test_nothing_gets_through_for_too_long(
    broker: FakeBroker, mq: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_write, "_SILENCE_S_MAX", 0.02)
    broker.script[STAGE].extend([DiskFull()] * 1000)
    with pytest.raises(TimedOut, match=r"Nothing could be staged for 0\.02 s"):
        await stage_all(mq, 1)


async def test_a_decided_epoch_is_not_staged_any_more(broker: FakeBroker, mq: Client) -> None:
    broker.committed["w"] = 0
    async with mq.staged_write("w", 0, "a") as staged:
        await staged.stage("orders", 0, batch(0))
        await staged.flush()
        for number in range(10):
            await staged.stage("orders", 0, batch(number))
        attempt = await staged.flush()
    assert broker.count(STAGE) == 1
    assert (await mq.commit_staged("w", 0, [attempt])).already


async def stage_and_fail(mq: Client, count: int) -> None:
    async with mq.staged_write("w", 0) as staged:
        for number in range(count):
            await staged.stage("orders", 0, batch(number))
        await staged.flush()
        raise KeyError


async def test_who_leaves_by_an_error_drops_what_was_staged(broker: FakeBroker, mq: Client) -> None:
    with pytest.raises(KeyError):
        await stage_and_fail(mq, 3)
    assert broker.staged == {}
    with pytest.raises(KeyError):
        await stage_and_fail(mq, 0)
    assert broker.count(ABORT) == 1, "nothing was staged"


async def test_a_drop_that_fails_does_not_hide_the_error(
    broker: FakeBroker, mq: Client, caplog: pytest.LogCaptureFixture
) -> None:
    broker.script[ABORT].append(InvalidRequest("no"))
    with pytest.raises(KeyError):
        await stage_and_fail(mq, 1)
    assert "could not be dropped now" in caplog.text


async def test_after_the_end_nothing_is_staged(broker: FakeBroker, mq: Client) -> None:
    async with mq.staged_write("w", 0) as staged:
        pass
    with pytest.raises(ClientClosed):
        await staged.stage("orders", 0, batch(0))
    async with connect(broker.address) as other:
        staged = other.staged_write("w", 0)
        broker.script[STAGE].append(HOLD)
        await staged.stage("orders", 0, batch(0))
    with pytest.raises(ClientClosed):
        await staged.flush()


async def test_a_commit_waits_as_long_as_it_takes(broker: FakeBroker, mq: Client) -> None:
    broker.copy_polls = 3
    committed = await mq.commit_staged("w", 0, [])
    assert not committed.already, "though the later calls were told so"
    assert broker.count(COMMIT) == 4


async def test_a_commit_whose_answer_is_lost(broker: FakeBroker, mq: Client) -> None:
    broker.script[COMMIT].append(LOSE_ANSWER)
    assert (await mq.commit_staged("w", 0, [])).already


async def test_a_commit_of_what_is_missing(mq: Client) -> None:
    with pytest.raises(StagedBatchesMissing):
        await mq.commit_staged("w", 0, [StagedAttempt("a", 1, 1)])
    with pytest.raises(InvalidRequest, match="is no StagedAttempt"):
        await mq.commit_staged("w", 0, ["a"])  # type: ignore[list-item]


async def test_abort(broker: FakeBroker, mq: Client) -> None:
    attempt = await stage_all(mq)
    await mq.abort_staged("w", 0, [attempt])
    assert broker.staged == {}
    await mq.abort_staged("w", 0, [attempt])


async def test_the_last_commit_says_so(broker: FakeBroker, mq: Client) -> None:
    await mq.commit_staged("w", 0, [], last=True)
    assert broker.calls[-1][1].last
