"""The queue's own headers: tag, time to live, priority, by every way to publish."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import time_ns
from typing import Any, get_type_hints

import pytest

import penstock.testing
from penstock.client.admin.delayed import DelayedMessage
from penstock.client.blocking.client import connect_blocking
from penstock.client.blocking.producing import BlockingProducer
from penstock.client.client import Client
from penstock.client.producing.options import MessageOptions, with_queue_headers
from penstock.client.producing.producer import Producer
from penstock.model.errors import InvalidRequest
from penstock.model.message_headers import EXPIRES_MS, PRIORITY, TAG
from penstock.records import Message, decode_messages
from tests.kit.client.fake_broker import FakeBroker


def kept(broker: FakeBroker) -> list[Message]:
    payload = b"".join(batch for _, batch in broker.topics["orders"][0].batches)
    return decode_messages(payload, "orders", 0, 0)


@pytest.mark.parametrize("taker", [Producer.send, BlockingProducer.send, DelayedMessage.__init__])
def test_where_options_are_spelt_out_they_are_all_there(taker: Any) -> None:
    """R-DEL-9, R-DEL-12: what may be said of a message may be said everywhere."""
    spelt = get_type_hints(taker)
    assert get_type_hints(MessageOptions).items() <= spelt.items()


async def test_an_option_that_there_is_not_is_an_error_that_names_it(
    broker: FakeBroker, mq: Client
) -> None:
    for delay_s in (None, 1.0):
        with pytest.raises(TypeError, match="'prioriti'"):
            await mq.publish("orders", b"a", delay_s=delay_s, prioriti=1)  # type: ignore[call-arg]
    assert not broker.topics


async def test_a_tag_is_a_header_that_everybody_can_read(broker: FakeBroker, mq: Client) -> None:
    """R-DEL-12: tags; a Kafka client may set it itself."""
    broker.create("orders", 1)
    await mq.publish("orders", b"a", tag="paid")
    async with mq.producer() as producer:
        await producer.send("orders", b"b", tag="größer", headers=[("x", b"y")])
        await producer.send("orders", b"c")
        await producer.flush()
        await producer.publish("orders", b"d", tag="paid", headers=[("penstock-tag", b"other")])
    assert [message.tag for message in kept(broker)] == ["paid", "größer", None, "paid"]
    assert kept(broker)[1].headers == (("penstock-tag", "größer".encode()), ("x", b"y"))


async def test_time_to_live_and_priority_by_every_way_to_publish(
    broker: FakeBroker, mq: Client
) -> None:
    """R-DEL-9: what is given counts, whatever the message's own headers say."""
    broker.create("orders", 1)
    before_ms = time_ns() // 1_000_000
    await mq.publish("orders", b"a", ttl_s=60, priority=9, tag="t", headers=[("x", b"y")])
    async with mq.producer() as producer:
        await producer.send("orders", b"b", priority=0, headers=[(PRIORITY, b"9")])
        await producer.submit("orders", b"c", ttl_s=0.0001)
        await producer.publish("orders", b"d", ttl_s=60)
    after_ms = time_ns() // 1_000_000
    first, second, third, fourth = kept(broker)
    assert [name for name, _ in first.headers] == [TAG, "x", EXPIRES_MS, PRIORITY]
    assert first.headers[3] == (PRIORITY, b"9")
    for message, ttl_ms in ((first, 60_000), (third, 1), (fourth, 60_000)):
        expires_ms = int(dict(message.headers)[EXPIRES_MS] or b"")
        assert before_ms + ttl_ms <= expires_ms <= after_ms + ttl_ms
    assert second.headers[-1] == (PRIORITY, b"0")


def test_blocking_producers_set_them_too() -> None:
    with penstock.testing.broker() as address, connect_blocking(address) as mq:
        mq.publish("jobs", b"a", priority=1)
        with mq.producer() as producer:
            producer.send("jobs", b"b", priority=2, partition=0)
            producer.publish("jobs", b"c", ttl_s=60, partition=0)
        consumer = mq.subscribe("jobs")
        found: list[str] = []
        while len(found) < 3:
            found += [name for message in consumer.fetch() for name, _ in message.headers]
        assert sorted(found) == [EXPIRES_MS, PRIORITY, PRIORITY]


def test_a_delayed_message_lives_from_when_it_is_due() -> None:
    later = DelayedMessage(b"x", delay_s=3600, ttl_s=60)
    assert later.all_headers(1_000, 3_600_000) == ((EXPIRES_MS, b"%d" % (1_000 + 3_660_000)),)
    at = datetime.now(UTC) + timedelta(hours=1)
    timed = DelayedMessage(b"x", deliver_at=at, ttl_s=60, priority=3)
    assert timed.all_headers(1_000, 9_000) == ((EXPIRES_MS, b"69000"), (PRIORITY, b"3"))
    past = DelayedMessage(b"x", deliver_at=at, ttl_s=60)
    assert past.all_headers(10_000, 9_000) == ((EXPIRES_MS, b"70000"),)
    assert DelayedMessage(b"x", delay_s=1).all_headers(0, 0) is None


@pytest.mark.parametrize("tag", ["", "x" * 256, b"paid", "\ud800"])
def test_what_no_filter_could_ask_for_is_refused(tag: Any) -> None:
    with pytest.raises(InvalidRequest, match="The tag "):
        with_queue_headers(None, tag, None, None)


@pytest.mark.parametrize("ttl_s", [0, -1, float("nan"), float("inf"), 1e12, "60"])
def test_a_time_to_live_is_more_than_none_and_has_an_end(ttl_s: Any) -> None:
    with pytest.raises(InvalidRequest, match="ttl_s is "):
        with_queue_headers(None, None, ttl_s, None)


@pytest.mark.parametrize("priority", [-1, 10, 4.5, "4"])
def test_priorities_are_from_0_to_9(priority: Any) -> None:
    with pytest.raises(InvalidRequest, match="from 0 to 9"):
        with_queue_headers(None, None, None, priority)
