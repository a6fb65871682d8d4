"""Tags of messages, by every way to publish."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.client import Client
from penstock.client.tagging import tagged
from penstock.model.errors import InvalidRequest
from penstock.records import Message, decode_messages
from tests.unit.client.fake_broker import FakeBroker


def kept(broker: FakeBroker) -> list[Message]:
    payload = b"".join(batch for _, batch in broker.topics["orders"][0].batches)
    return decode_messages(payload, "orders", 0, 0)


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


@pytest.mark.parametrize("tag", ["", "x" * 256, b"paid", "\ud800"])
def test_what_no_filter_could_ask_for_is_refused(tag: Any) -> None:
    with pytest.raises(InvalidRequest, match="The tag "):
        tagged(None, tag)
