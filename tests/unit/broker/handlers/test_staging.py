"""Staged writes as a client asks for them, call by call, also one that does not mean well."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.model.errors import (
    InvalidBatch,
    InvalidRequest,
    InvalidTopic,
    MalformedFrame,
    NotCoordinator,
    PenstockError,
    ReservedProducerId,
    StagedBatchesMissing,
    UnknownProducer,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.model.limits import COPY_PRODUCER_ID_MIN
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import RawClient, batch, running
from tests.kit.simulated_disk import SimulatedDisk


async def stage(
    client: RawClient, payload: bytes | bytearray | None = None, **fields: Any
) -> pb.StageResponse:
    request = pb.StageRequest(**({"write": "w", "attempt": "a", "topic": "orders"} | fields))
    sent = batch([b"x"]) if payload is None else payload
    answer, _ = await client.channel.call(calls.STAGE, request, [sent])
    return answer


async def commit(client: RawClient, **attempts: int) -> pb.CommitStagedResponse:
    request = pb.CommitStagedRequest(write="w", max_wait_ms=5000)
    for attempt, batches in attempts.items():
        request.attempts.add(attempt=attempt, batches=batches)
    answer, _ = await client.channel.call(calls.COMMIT_STAGED, request)
    return answer


async def committed_epoch(client: RawClient) -> pb.CommittedEpochResponse:
    answer, _ = await client.channel.call(
        calls.COMMITTED_EPOCH, pb.CommittedEpochRequest(write="w")
    )
    return answer


async def test_a_write_from_its_first_batch_to_its_commit() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", partitions=2)
        answers = await asyncio.gather(
            stage(client, batch([b"a", b"b"])),
            stage(client, batch([b"c"]), sequence=1, partition=1),
            stage(client, batch([b"d"]), sequence=2),
            stage(client, batch([b"d"]), sequence=2),
        )
        assert not any(answer.already for answer in answers)
        assert not (await committed_epoch(client)).HasField("epoch")
        assert await client.values("orders") == []
        answer = await commit(client, a=3)
        assert (answer.already, answer.records, answer.readable) == (False, 4, True)
        assert await client.values("orders") == [b"a", b"b", b"d"]
        assert await client.values("orders", 1) == [b"c"]
        assert (await committed_epoch(client)).epoch == 0
        assert (await stage(client, attempt="late")).already
    async with running(disk.root) as (_, client):
        assert (await commit(client, late=1)).already
        assert await client.values("orders", 1) == [b"c"]


async def test_what_is_aborted_is_not_there() -> None:
    async with running() as (_, client):
        await client.create("orders")
        await stage(client)
        request = pb.AbortStagedRequest(write="w", attempts=["a", "unknown"])
        await client.channel.call(calls.ABORT_STAGED, request)
        with pytest.raises(StagedBatchesMissing):
            await commit(client, a=1)


async def test_clients_write_the_internal_topics_in_no_other_way() -> None:
    async with running() as (_, client):
        await client.create("orders")
        await stage(client)
        for topic in ("__staged", "__writes"):
            with pytest.raises(InvalidTopic):
                await client.produce(topic, batch([b"x"]))
            with pytest.raises(InvalidTopic):
                await stage(client, topic=topic, sequence=1)
            with pytest.raises(InvalidTopic):
                await client.create(topic)
            deleting = pb.DeleteTopicRequest(name=topic)
            with pytest.raises(InvalidTopic):
                await client.channel.call(calls.DELETE_TOPIC, deleting)
        assert (await commit(client, a=1)).records == 1


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (UnknownTopic, {"topic": "nowhere"}),
        (UnknownTopic, {"partition": 2**32 - 1}),
        (UnknownTopic, {"topic": "\N{PILE OF POO}"}),
        (StagedBatchesMissing, {"sequence": 1}),
        (StagedBatchesMissing, {"sequence": 2**32 - 1}),
        (InvalidRequest, {"write": ""}),
        (InvalidRequest, {"write": "w" * 256}),
        (InvalidRequest, {"write": "a\x1b[2J"}),
        (InvalidRequest, {"attempt": ""}),
        (InvalidRequest, {"attempt": "a" * 65}),
        (InvalidRequest, {"epoch": -1}),
        (InvalidRequest, {"epoch": -(2**63)}),
        (InvalidBatch, {"payload": b""}),
        (InvalidBatch, {"payload": b"\xff" * 1000}),
        (InvalidBatch, {"payload": bytes(batch([b"x"])) + b"more"}),
    ],
)
async def test_hostile_stages(error: type[PenstockError], fields: dict[str, Any]) -> None:
    """R-NET-5: refused with a sentence, and the connection goes on; also where the topics of staged
    writes have to be made first."""
    async with running() as (_, client):
        await client.create("orders")
        for _ in range(2):
            with pytest.raises(error):
                await stage(client, **fields)
        assert not (await stage(client)).already


async def test_hostile_commits() -> None:
    async with running() as (_, client):
        await client.create("orders")
        await stage(client)
        for attempts in ({"a": 2}, {"a": 0}, {"a": 2**32 - 1}, {"b": 1}, {"a": 1, "b": 1}):
            with pytest.raises(StagedBatchesMissing):
                await commit(client, **attempts)
        request = pb.CommitStagedRequest(write="w")
        for _ in range(100_000):
            request.attempts.add(attempt="a", batches=1)
        with pytest.raises(InvalidRequest, match="names 100000 attempts"):
            await client.channel.call(calls.COMMIT_STAGED, request)
        aborting = pb.AbortStagedRequest(write="w", attempts=["a"] * 100_000)
        with pytest.raises(InvalidRequest, match="names 100000 attempts"):
            await client.channel.call(calls.ABORT_STAGED, aborting)
        assert (await commit(client, a=1)).records == 1


@pytest.mark.parametrize(
    "call", [calls.STAGE, calls.COMMIT_STAGED, calls.ABORT_STAGED, calls.COMMITTED_EPOCH]
)
async def test_envelopes_that_are_none(call: calls.CallType[Any, Any]) -> None:
    async with running() as (_, client):
        answered = asyncio.get_running_loop().create_future()
        client.channel.start_call(
            call.number, b"\xff" * 20, (), lambda error, *_: answered.set_result(error)
        )
        assert isinstance(await answered, MalformedFrame)


# --- copies between brokers ----------------------------------------------------------------------

DRAWN = COPY_PRODUCER_ID_MIN + 5


async def copied(client: RawClient, payload: bytearray, **changes: Any) -> None:
    described = await client.describe("orders")
    fields: dict[str, Any] = {"topic": "orders", "topic_id": described.id, "coordinator_term": 1}
    request = pb.CopyRequest(**(fields | changes))
    await client.channel.call(calls.COPY, request, [payload])


async def with_writes(client: RawClient) -> None:
    """The topics of staged writes are there, led here."""
    await client.create("orders")
    await client.channel.call(calls.COMMIT_STAGED, pb.CommitStagedRequest(write="w"))


async def test_a_copied_batch_is_appended_once_whatever_the_settings_are_by_now() -> None:
    """R-SPK-2."""
    async with running() as (_, client):
        await with_writes(client)
        request = pb.AlterTopicRequest(name="orders", set={"batch_bytes_max": "1024"})
        await client.channel.call(calls.ALTER_TOPIC, request)
        for _ in range(3):
            for sequence, size in enumerate((2000, 1, 1, 1, 1, 1, 1)):
                value = b"x" * size
                await copied(client, batch([value], producer=(DRAWN, 0, sequence)))
        assert [len(value or b"") for value in await client.values("orders")] == [2000, *[1] * 6]


async def test_times_of_copied_batches_are_stamped_where_the_topic_wants_it() -> None:
    async with running() as (_, client):
        await with_writes(client)
        request = pb.AlterTopicRequest(name="orders", set={"timestamp_type": "append"})
        await client.channel.call(calls.ALTER_TOPIC, request)
        await copied(client, batch([b"a"], producer=(DRAWN, 0, 0)))
        [message] = await client.fetch("orders")
        assert message.timestamp_type == "append"


@pytest.mark.parametrize(
    ("error", "producer", "changes"),
    [
        (NotCoordinator, (DRAWN, 0, 0), {"coordinator_term": -1}),
        (InvalidTopic, (DRAWN, 0, 0), {"topic": "__writes"}),
        (UnknownTopic, (DRAWN, 0, 0), {"topic": "nowhere"}),
        (UnknownTopic, (DRAWN, 0, 0), {"partition": 9}),
        (UnknownTopicId, (DRAWN, 0, 0), {"topic_id": "another"}),
        (InvalidRequest, (5, 0, 0), {}),
        (InvalidRequest, (-1, -1, -1), {}),
        (UnknownProducer, (DRAWN, 0, 3), {}),
    ],
)
async def test_what_no_coordinator_would_send_is_refused(
    error: type[PenstockError], producer: tuple[int, int, int], changes: dict[str, Any]
) -> None:
    """R-REP-2: nor is one listened to that was replaced."""
    async with running() as (_, client):
        await with_writes(client)
        with pytest.raises(error):
            await copied(client, batch([b"a"], producer=producer), **changes)
        assert await client.values("orders") == []


@pytest.mark.parametrize(
    "call", [calls.PRODUCE, calls.STAGE, calls.DELAY], ids=lambda one: one.name
)
async def test_no_client_is_the_producer_of_a_copy(call: Any) -> None:
    """R-PRO-2: whoever had the number of a lane of delayed messages could make the partition take
    what is due for a repetition, and it would be gone."""
    async with running() as (_, client):
        await client.create("orders")
        request = {
            calls.PRODUCE: pb.ProduceRequest(topic="orders", acks=-1),
            calls.STAGE: pb.StageRequest(write="w", attempt="a", topic="orders"),
            calls.DELAY: pb.DelayRequest(topic="orders", due_ms=[60_000], is_relative=True),
        }[call]
        with pytest.raises(ReservedProducerId, match="InitProducer"):
            await client.channel.call(call, request, [numbered(DRAWN)])
        await client.channel.call(call, request, [numbered(DRAWN - 6)])


def numbered(producer_id: int) -> bytearray:
    return batch([b"x"], producer=(producer_id, 0, 0))
