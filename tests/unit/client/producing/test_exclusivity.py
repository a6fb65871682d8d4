"""A producer that has its topics for itself: claimed first, kept, given up, lost to another."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.client import Client
from penstock.client.errors import DeliveryFailed
from penstock.model.errors import (
    Busy,
    InvalidConfig,
    InvalidRequest,
    NotCoordinator,
    TopicClaimed,
    UnknownTopic,
)
from penstock.protocol import penstock_pb2 as pb
from penstock.records import build_batch
from penstock.records.columns import EncodedBatch
from tests.kit.client.fake_broker import LOSE_ANSWER, FakeBroker


async def test_a_topic_is_claimed_before_the_first_batch(broker: FakeBroker, mq: Client) -> None:
    """R-CORE-6: and with the claim's number each batch is sent."""
    async with mq.producer(exclusive="refuse") as producer:
        await producer.publish("orders", b"a")
        await producer.publish("orders", b"b")
        [claim] = [request for call, request in broker.calls if call == pb.CALL_CLAIM_TOPIC]
        assert not claim.fence
        assert claim.client_name.startswith("penstock (")
        sent = [request.claim for call, request in broker.calls if call == pb.CALL_PRODUCE]
        assert sent == [1, 1]
        # Not made by who looks for its route: then it would be anybody's.
        assert broker.calls.index((pb.CALL_CLAIM_TOPIC, claim)) < [
            call for call, _ in broker.calls
        ].index(pb.CALL_METADATA)
        assert broker.claimed
    assert not broker.claimed, "given up at the end"


async def test_a_topic_that_is_deleted_under_its_holder_is_not_made_again(
    broker: FakeBroker, mq: Client
) -> None:
    """R-CORE-6: made by who looks for its route it would be anybody's. The holder is told."""
    async with mq.producer(exclusive="refuse") as producer:
        await producer.publish("orders", b"a")
        del broker.topics["orders"]
        with pytest.raises(UnknownTopic):
            await producer.publish("orders", b"b")
        assert "orders" not in broker.topics


async def test_many_partitions_and_senders_claim_once(broker: FakeBroker, mq: Client) -> None:
    broker.create("orders", 4)
    async with mq.producer(exclusive="fence") as producer:
        await asyncio.gather(
            *(producer.publish("orders", b"x", partition=number % 4) for number in range(8))
        )
        assert broker.count(pb.CALL_CLAIM_TOPIC) == 1
        await producer.send_batches("more", [EncodedBatch(0, 1, build_batch([(None, b"y")]))])
        await producer.flush()
        assert broker.count(pb.CALL_CLAIM_TOPIC) == 2


async def test_a_topic_of_another_is_refused_and_may_be_tried_again(
    broker: FakeBroker, mq: Client
) -> None:
    broker.claimed["orders"] = "another"
    async with mq.producer(exclusive="refuse") as producer:
        for _ in range(2):
            with pytest.raises(TopicClaimed, match="somebody else"):
                await producer.publish("orders", b"a")
        with pytest.raises(TopicClaimed):
            await producer.send("orders", b"a")
        del broker.claimed["orders"]
        await producer.publish("orders", b"a")


async def test_a_claim_whose_answer_is_lost_is_the_same(broker: FakeBroker, mq: Client) -> None:
    broker.script[pb.CALL_CLAIM_TOPIC].extend([LOSE_ANSWER, NotCoordinator("another one")])
    async with mq.producer(exclusive="refuse") as producer:
        await producer.claim("orders")
        await producer.publish("orders", b"a")
        assert broker.claims == 1


async def test_a_claim_is_renewed_and_a_failure_to_is_no_end(
    broker: FakeBroker, mq: Client
) -> None:
    broker.keep_claims_ms = 3
    async with mq.producer(exclusive="refuse") as producer:
        await producer.claim("orders")
        broker.script[pb.CALL_CLAIM_TOPIC].append(Busy("a moment"))
        await broker.until(lambda: broker.count(pb.CALL_CLAIM_TOPIC) >= 5)
        renewals = [request.claim for call, request in broker.calls if call == pb.CALL_CLAIM_TOPIC]
        assert renewals[:5] == [0, 1, 1, 1, 1]
        await producer.publish("orders", b"a")


async def test_a_producer_that_was_fenced_fails_everything(broker: FakeBroker, mq: Client) -> None:
    """R-CORE-6: it is told by whom, also if it sends nothing."""
    broker.keep_claims_ms = 3
    async with mq.producer(exclusive="refuse", linger_ms=10_000) as producer:
        await producer.send("orders", b"queued")
        broker.claimed["orders"] = "another"

        async def until_fenced() -> None:
            while True:
                await producer.send("orders", b"more")
                await asyncio.sleep(0)

        with pytest.raises(TopicClaimed, match="somebody else"):
            async with asyncio.timeout(5):
                await until_fenced()
        with pytest.raises(TopicClaimed):
            await producer.publish("other", b"x")
        with pytest.raises(DeliveryFailed, match="somebody else"):
            await producer.flush()
        assert broker.count(pb.CALL_PRODUCE) == 0


@pytest.mark.parametrize("acks", ["all", 0])
async def test_a_batch_that_is_refused_ends_the_producer(
    broker: FakeBroker, mq: Client, acks: object
) -> None:
    producer = mq.producer(exclusive="fence", acks=acks, linger_ms=0)  # type: ignore[arg-type]
    await producer.claim("orders")
    broker.script[pb.CALL_PRODUCE].append(TopicClaimed("taken over by 'b'"))
    if acks == "all":
        with pytest.raises(TopicClaimed, match="'b'"):
            await producer.publish("orders", b"a")
    else:
        await producer.send("orders", b"a")
        await broker.until(lambda: bool(producer.errors))
    with pytest.raises(TopicClaimed, match="'b'"):
        await producer.publish("orders", b"b")
    await producer.close()


async def test_a_message_that_may_have_been_written_is_told_so(
    broker: FakeBroker, mq: Client
) -> None:
    """Its acknowledgement was lost, and then the producer was fenced."""
    async with mq.producer(exclusive="fence") as producer:
        await producer.claim("orders")
        refusal = TopicClaimed("taken over by 'b'.")
        broker.script[pb.CALL_PRODUCE].extend([LOSE_ANSWER, refusal])
        with pytest.raises(TopicClaimed, match=r"'b'\. The message may have been written before"):
            await producer.publish("orders", b"a")
        assert len(broker.topics["orders"][0].batches) == 1


async def test_without_exclusive_nothing_is_claimed(broker: FakeBroker, mq: Client) -> None:
    async with mq.producer() as producer:
        await producer.publish("orders", b"a")
        with pytest.raises(InvalidRequest, match="exclusive"):
            await producer.claim("orders")
        broker.script[pb.CALL_PRODUCE].append(TopicClaimed("for one alone"))
        with pytest.raises(TopicClaimed):
            await producer.publish("orders", b"b")
        # Of one topic, which says nothing of the others.
        await producer.publish("others", b"c")
    assert broker.count(pb.CALL_CLAIM_TOPIC) == broker.count(pb.CALL_RELEASE_TOPIC) == 0


async def test_a_word_that_means_nothing_is_refused(mq: Client) -> None:
    with pytest.raises(InvalidConfig, match="exclusive is 'please'"):
        mq.producer(exclusive="please")  # type: ignore[arg-type]


async def test_a_producer_ends_although_nobody_takes_its_claims_back(
    broker: FakeBroker, mq: Client
) -> None:
    producer = mq.producer(exclusive="refuse")
    await producer.publish("orders", b"a")
    broker.script[pb.CALL_RELEASE_TOPIC].append(InvalidRequest("no"))
    await producer.close()
    assert broker.claimed
