"""From names and ids to partitions, and what a request says twice."""

from __future__ import annotations

import pytest

from penstock.broker.kafka.lookup import check_once, repeated
from penstock.model.errors import InvalidRequest
from penstock.model.ids import TopicPartition
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.schema import ZERO_UUID
from tests.kit.broker.kafka_client import kafka_running
from tests.kit.broker.kafka_talk import create, fetch, fill, topic_id


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (0, ErrorCode.NONE),
        (-2, ErrorCode.NONE),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_the_leaders_epoch_must_be_the_one_we_have(epoch: int, code: ErrorCode) -> None:
    """KIP-320: an older one is fenced, a newer one is not known yet; none is not checked."""
    async with kafka_running() as (_, client):
        await create(client)
        await fill(client, b"a")
        parts = await fetch(client, current_leader_epoch=epoch)
        assert parts[0].error_code == code
        assert (parts[0].high_watermark, parts[0].log_start_offset) == (
            (1, 0) if code == ErrorCode.NONE else (-1, -1)
        )


async def test_topics_are_found_by_their_ids() -> None:
    """KIP-516: a topic made anew under its name is another one."""
    async with kafka_running() as (_, client):
        await create(client)
        known = await topic_id(client)
        for topic, partition, code in (
            (known, 0, ErrorCode.NONE),
            (known, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (known, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (known[:-1] + b"\xff\0"[known[-1] == 0xFF :][:1], 0, ErrorCode.UNKNOWN_TOPIC_ID),
            (ZERO_UUID, 0, ErrorCode.UNKNOWN_TOPIC_ID),
        ):
            parts = await fetch(client, {partition: 0}, version=13, topic=topic)
            assert parts[partition].error_code == code


def test_what_is_named_twice_is_refused() -> None:
    twice = repeated([TopicPartition("orders", 0), TopicPartition("orders", 1)] * 2 + [("x", 1)])
    assert twice == {("orders", 0), ("orders", 1)}
    check_once(TopicPartition("x", 1), twice)
    with pytest.raises(InvalidRequest, match="names orders-1 more than once"):
        check_once(TopicPartition("orders", 1), twice)
