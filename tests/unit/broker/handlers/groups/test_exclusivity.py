"""Claims of topics, call by call: granted, refused, taken over, kept over a restart."""

from __future__ import annotations

import pytest

from penstock.coordination.group import exclusivity as producer_claims
from penstock.model.errors import InvalidRequest, InvalidTopic, TopicClaimed, UnknownTopic
from penstock.model.limits import CLAIM_KEEP_MS, CLAIM_VALID_MS
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import ManualClock, RawClient, batch, running
from tests.kit.simulated_disk import SimulatedDisk


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked twice here, so there are no answers to wait for."""
    monkeypatch.setattr(producer_claims, "CLAIM_SETTLE_MS", 1)


async def claim(
    client: RawClient, who: str, topic: str = "mine", *, fence: bool = False, number: int = 0
) -> pb.ClaimTopicResponse:
    request = pb.ClaimTopicRequest(
        topic=topic, claimant=who, client_name=f"client {who}", fence=fence, claim=number
    )
    response, _ = await client.channel.call(calls.CLAIM_TOPIC, request)
    return response


async def produce(client: RawClient, value: bytes, number: int) -> None:
    request = pb.ProduceRequest(topic="mine", acks=-1, claim=number)
    await client.channel.call(calls.PRODUCE, request, [batch([value])])


async def test_only_the_holder_writes() -> None:
    """R-CORE-6: one live producer per topic, later ones refused, or the older fenced."""
    async with running() as (_, client):
        await client.create("mine", exclusive_producer="yes")
        with pytest.raises(TopicClaimed, match=r"nobody has claimed it\. Claim it with"):
            await produce(client, b"0", 0)
        first = await claim(client, "a")
        assert first.keep_within_ms == CLAIM_KEEP_MS
        await produce(client, b"1", first.claim)
        with pytest.raises(TopicClaimed, match=r"'client a' .*exclusive=\"fence\""):
            await claim(client, "b")
        with pytest.raises(TopicClaimed, match="'client a' has claimed it"):
            await produce(client, b"2", 0)
        second = await claim(client, "b", fence=True)
        assert second.claim > first.claim
        await produce(client, b"3", second.claim)
        with pytest.raises(TopicClaimed, match="taken over by 'client b'"):
            await produce(client, b"4", first.claim)
        with pytest.raises(TopicClaimed, match="taken over by 'client b'"):
            await claim(client, "a", number=first.claim)
        assert await client.values("mine") == [b"1", b"3"]


async def test_a_released_topic_is_anybodys() -> None:
    async with running() as (_, client):
        await client.create("mine", exclusive_producer="yes")
        await claim(client, "a")
        for who in ("b", "a"):
            request = pb.ReleaseTopicRequest(topic="mine", claimant=who)
            await client.channel.call(calls.RELEASE_TOPIC, request)
            if who == "b":
                with pytest.raises(TopicClaimed):
                    await claim(client, "b")
        await claim(client, "b")


async def test_a_topic_for_everybody_cannot_be_claimed() -> None:
    async with running() as (_, client):
        await client.create("mine")
        with pytest.raises(InvalidRequest, match="topics alter mine --set exclusive_producer=yes"):
            await claim(client, "a")
        await client.produce("mine", batch([b"x"]))


async def test_a_topic_that_is_claimed_first_is_made_for_one_alone() -> None:
    async with running() as (_, client):
        await claim(client, "a", "new")
        assert (await client.describe("new")).config["exclusive_producer"] == "yes"
        with pytest.raises(TopicClaimed):
            await client.produce("new", batch([b"x"]))


async def test_a_deleted_topic_is_not_made_again_by_who_renews_its_claim() -> None:
    async with running() as (_, client):
        granted = await claim(client, "a")
        await client.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name="mine"))
        with pytest.raises(UnknownTopic):
            await claim(client, "a", number=granted.claim)
        with pytest.raises(UnknownTopic):
            await client.describe("mine")
        assert (await claim(client, "a")).claim


async def test_no_topic_is_made_where_that_is_not_allowed() -> None:
    async with running(auto_create_topics=False) as (_, client):
        with pytest.raises(UnknownTopic):
            await claim(client, "a", "new")


@pytest.mark.parametrize("claimant", ["", "x" * 65])
async def test_a_claimant_has_a_name_of_some_length(claimant: str) -> None:
    async with running() as (_, client):
        with pytest.raises(InvalidRequest, match="claimant"):
            await claim(client, claimant)


@pytest.mark.parametrize("topic", ["", "__offsets", "a/b"])
async def test_what_is_no_topic_of_users_is_not_claimed(topic: str) -> None:
    async with running() as (_, client):
        with pytest.raises(InvalidTopic):
            await claim(client, "a", topic)


async def test_a_claim_outlives_the_broker() -> None:
    """R-CORE-6: after a crash the holder is known, and has a whole period to claim again."""
    disk, clock = SimulatedDisk(), ManualClock()
    async with running(disk.root, clock=clock) as (_, client):
        await client.create("mine", exclusive_producer="yes")
        first = await claim(client, "a")
    async with running(disk.after_crash("lost").root, clock=clock) as (_, client):
        await produce(client, b"1", first.claim)
        clock.time_ms += CLAIM_KEEP_MS - 1
        with pytest.raises(TopicClaimed):
            await claim(client, "b")
        assert (await claim(client, "a", number=first.claim)).claim == first.claim
        clock.time_ms += CLAIM_KEEP_MS
        second = await claim(client, "b")
        assert second.claim > first.claim


async def test_a_broker_is_told_who_may_write() -> None:
    async with running() as (_, client):
        await client.create("mine", exclusive_producer="yes")
        topic_id = (await client.describe("mine")).id
        check = pb.CheckClaimRequest(topic_id=topic_id)
        response, _ = await client.channel.call(calls.CHECK_CLAIM, check)
        assert response == pb.CheckClaimResponse(valid_ms=CLAIM_VALID_MS)
        granted = await claim(client, "a")
        response, _ = await client.channel.call(calls.CHECK_CLAIM, check)
        assert (response.claim, response.client_name) == (granted.claim, "client a")


async def test_staged_writes_are_refused() -> None:
    async with running() as (_, client):
        await client.create("mine", exclusive_producer="yes")
        request = pb.StageRequest(write="w", epoch=0, attempt="a", topic="mine")
        with pytest.raises(TopicClaimed, match="staged writes"):
            await client.channel.call(calls.STAGE, request, [batch([b"x"])])
