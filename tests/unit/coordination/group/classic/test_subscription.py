"""The topics in a consumer's metadata: as real clients write it, and as nobody should."""

from __future__ import annotations

import io
import struct

import pytest
from kio.schema.consumer_protocol_subscription.v0.data import (
    ConsumerProtocolSubscription as Subscription0,
)
from kio.schema.consumer_protocol_subscription.v3.data import (
    ConsumerProtocolSubscription as Subscription3,
)
from kio.schema.consumer_protocol_subscription.v3.data import TopicPartition
from kio.schema.types import TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32

from penstock.coordination.group.classic.subscription import partitions_of, topics_of
from tests.golden.groups.classic_script import subscription

TOPICS = ("orders", "täglich")
NEWEST = Subscription3(
    topics=TOPICS,
    user_data=b"mine",
    owned_partitions=(TopicPartition(topic=TopicName("other"), partitions=(i32(1),)),),
    generation_id=i32(7),
    rack_id="rack",
)


@pytest.mark.parametrize("written", [Subscription0(topics=TOPICS), NEWEST])
def test_metadata_as_kafka_defines_it(written: Subscription0 | Subscription3) -> None:
    """R-NET-5: kio writes it from Kafka's own definitions."""
    buffer = io.BytesIO()
    entity_writer(type(written))(buffer, written)
    metadata = struct.pack(">h", written.__version__) + buffer.getvalue()
    assert topics_of(metadata) == frozenset(TOPICS)


def test_no_topics_are_none_and_not_unknown() -> None:
    assert topics_of(subscription("")) == frozenset()


def test_every_cut_is_unknown_or_whole() -> None:
    whole = subscription("orders,täglich")
    topics_end = len(whole) - 4
    for length in range(len(whole)):
        cut = topics_of(whole[:length])
        assert cut == (frozenset(TOPICS) if length >= topics_end else None)


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        struct.pack(">hi", -1, 0),
        struct.pack(">hi", 0, -1),
        struct.pack(">hi", 0, 2**31 - 1) + b"\0" * 100,
        struct.pack(">hih", 0, 1, -1),
        struct.pack(">hih", 0, 1, 2) + b"\xff\xff",
    ],
)
def test_other_bytes_are_unknown(metadata: bytes) -> None:
    assert topics_of(metadata) is None


# --- assignments -------------------------------------------------------------------------------

# Version 0, two topics: orders 0 and 2, events 1; no user data. As Kafka's leaders write it.
ASSIGNMENT = (
    b"\x00\x00\x00\x00\x00\x02"
    b"\x00\x06orders\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02"
    b"\x00\x06events\x00\x00\x00\x01\x00\x00\x00\x01"
    b"\xff\xff\xff\xff"
)


def test_what_a_leader_assigned() -> None:
    assert partitions_of(ASSIGNMENT) == {"orders": (0, 2), "events": (1,)}


def test_an_assignment_that_ends_early_tells_what_came_before() -> None:
    """It comes from a client: bytes that make no sense are no exception."""
    for length in range(len(ASSIGNMENT)):
        found = partitions_of(ASSIGNMENT[:length])
        assert found.items() <= partitions_of(ASSIGNMENT).items()
    assert partitions_of(b"\x00\x00\x7f\xff\xff\xff") == {}
    assert partitions_of(b"\x00\x00\x00\x00\x00\x01\x00\x01o\x7f\xff\xff\xff") == {}
    assert partitions_of(b"\x00\x00\x00\x00\x00\x01\x00\x01\xff\x00\x00\x00\x00") == {}
    assert partitions_of(b"\x00\x00\x00\x00\x00\x01\x00\x01o\xff\xff\xff\xff") == {}
    # Two billion topics, each of which ends where it began.
    assert partitions_of(b"\x00\x00\x7f\xff\xff\xff" + b"\xff\xfa" * 20) == {}
