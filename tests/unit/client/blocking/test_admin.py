"""Groups from code without an event loop."""

from __future__ import annotations

import pytest

import penstock
import penstock.testing
from penstock.model.errors import InvalidGroup
from penstock.model.ids import TopicPartition


def test_groups() -> None:
    """R-DEL-4: membership and its administration, from blocking code."""
    given: list[list[TopicPartition]] = []
    with penstock.testing.broker() as address, penstock.connect_blocking(address) as mq:
        mq.publish("orders", b"1")
        with mq.subscribe("orders", group="billing", on_assigned=given.append) as consumer:
            assert given == [consumer.partitions] == [[("orders", 0)]]
            (message,) = consumer.fetch(timeout_s=20)
            message.ack()
            assert len(mq.groups.describe("billing").members) == 1
        assert [group.lag for group in mq.groups.describe_all()] == [0]
        assert [group.lag for group in mq.groups.describe_those(["billing"])] == [0]
        assert [each.topic for each in mq.groups.subscriptions("orders")] == ["orders"]
        mq.groups.move("billing", {("orders", 0): 0})
        assert mq.groups.describe("billing").lag == 1
        assert mq.groups.settings("billing").changed == frozenset()
        limit = "share.delivery.count.limit"
        mq.groups.configure("billing", {limit: "7"})
        found = mq.groups.settings("billing")
        assert (found.values[limit], found.changed) == ("7", frozenset({limit}))
        mq.groups.configure("billing", {}, [limit])
        assert mq.groups.settings("billing").values[limit] == "5"
        with pytest.raises(InvalidGroup, match="name one"):
            mq.groups.settings("")
        mq.groups.delete("billing")
        assert mq.groups.describe_all() == []
