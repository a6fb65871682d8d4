"""What is a blocking consumer's own: its `with`, and loops that are left."""

from __future__ import annotations

import pytest

from penstock.client.blocking.client import BlockingClient
from penstock.model.errors import ClientClosed, UnknownTopic


def test_where_latest_begins_can_be_said(mq: BlockingClient) -> None:
    mq.publish("orders", b"before")
    consumer = mq.subscribe("orders", start="latest")
    consumer.start()
    mq.publish("orders", b"after")
    assert [message.value for message in consumer.fetch()] == [b"after"]


def test_one_that_cannot_start_is_ended(mq: BlockingClient) -> None:
    """As with asyncio: it is not taken up again."""
    consumer = mq.subscribe("nothing", on_missing_topic="error")
    with pytest.raises(UnknownTopic), consumer:
        pass
    with pytest.raises(ClientClosed):
        consumer.fetch()


def test_a_loop_over_batches_is_left_and_taken_up_again(mq: BlockingClient) -> None:
    """Nothing is skipped, nothing is left behind."""
    with mq.producer() as producer:
        for number in range(10):
            producer.send("orders", b"%d" % number)
            producer.flush()
    values: list[bytes | None] = []
    with mq.subscribe("orders", buffer_bytes=1) as consumer:
        while len(values) < 10:
            for messages in consumer.batches():
                values += [message.value for message in messages]
                break
    assert values == [b"%d" % number for number in range(10)]
