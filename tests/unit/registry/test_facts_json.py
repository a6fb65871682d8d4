"""Facts as JSON: read back as written; anything else is one typed error that names it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import CorruptFacts
from penstock.model.ids import BrokerId, TopicId
from penstock.model.limits import PARTITIONS_PER_TOPIC_MAX, ZNODE_BYTES_MAX
from penstock.model.removal import DeletedPartition, DeletedTopic
from penstock.raft.membership import Node
from penstock.registry import facts_json
from penstock.registry.facts import Facts
from penstock.registry.image import TopicImage, placed
from tests.kit.registry.facts import broker, ids

ORDERS = TopicImage(
    name="orders",
    id=TopicId("0123456789abcdef" * 2),
    partitions=(
        placed(ids(1, 2), (Node(1, 2**64 - 1), Node(2, 0))),
        placed(ids(3), (Node(2, 0),)),
    ),
    settings={"retention_ms": "5"},
    version=4,
)
DELETION = DeletedTopic(
    name="events", topic_id="f" * 32, at_ms=5, partitions=(DeletedPartition(1, 3, 7),)
)
FACTS = Facts(
    cluster_id="cluster",
    version=9,
    brokers={
        BrokerId(1): broker(1, host="rack-1"),
        BrokerId(2): replace(broker(2), is_alive=False),
    },
    drained=frozenset(ids(2, 7)),
    broker_settings={"": {"retention_ms": "6"}, "2": {"batch_bytes_max": "2000"}},
    topics={"orders": ORDERS},
    deleted_topics=(DELETION,),
    first_term=17,
    next_producer_id=3000,
)


def test_each_document_reads_back() -> None:
    assert facts_json.decode_facts(facts_json.encode_facts(FACTS), "facts") == FACTS
    assert facts_json.decode_topic(facts_json.encode_topic(ORDERS), "t", 4) == ORDERS
    one = broker(1, host="rack-1")
    assert facts_json.decode_broker(facts_json.encode_broker(one), "b") == one
    later = replace(ORDERS, first_term=17)
    assert facts_json.decode_topic(facts_json.encode_topic(later), "t", 4) == later
    for first_term in (0, 17):
        deletions = facts_json.encode_deletions([DELETION], first_term)
        assert facts_json.decode_deletions(deletions, "d") == ((DELETION,), first_term)
    for settings in (FACTS.broker_settings, {}):
        stamp = facts_json.encode_cluster("cluster", ids(7, 2), settings)
        assert facts_json.decode_cluster(stamp, "c") == ("cluster", frozenset(ids(2, 7)), settings)
    assert facts_json.decode_producer_ids(facts_json.encode_producer_ids(5), "p") == 5


def test_the_largest_topic_fits_into_a_znode() -> None:
    voters = tuple(Node(number, 2**63 + number) for number in (1001, 1002, 1003))
    partition = placed(ids(1001, 1002, 1003), voters)
    topic = replace(ORDERS, partitions=(partition,) * PARTITIONS_PER_TOPIC_MAX)
    assert len(facts_json.encode_topic(topic)) < ZNODE_BYTES_MAX // 2


def test_documents_of_before_terms_were_remembered() -> None:
    """They say nothing of the term that topics begin with; and where there is nothing to say,
    neither do those of today, which earlier versions can read."""
    for encoded in (
        facts_json.encode_facts(replace(FACTS, first_term=0)),
        facts_json.encode_topic(ORDERS),
        facts_json.encode_deletions([DELETION]),
    ):
        assert b"first_term" not in encoded


HOSTILE: dict[str, Callable[[dict[str, Any]], object]] = {
    "no format": lambda fields: fields.pop("format"),
    "a later format": lambda fields: fields.update(format=2),
    "a number too large": lambda fields: fields.update(format=10**30),
    "another name": lambda fields: fields.update(name="../orders"),
    "an id with other letters": lambda fields: fields.update(id="g" * 32),
    "no partitions": lambda fields: fields.update(partitions=[]),
    "too many partitions": lambda fields: fields.update(partitions=fields["partitions"] * 10_000),
    "a broker twice": lambda fields: fields.update(partitions=[[[1, 1], [0]]]),
    "no replicas": lambda fields: fields.update(partitions=[[[], [0]]]),
    "a broker that is no number": lambda fields: fields.update(partitions=[[[True], [0]]]),
    "a replica that is a list": lambda fields: fields.update(partitions=[[[[1]], [0]]]),
    "a voter that is not there": lambda fields: fields.update(partitions=[[[1], [9]]]),
    "a voter before the first": lambda fields: fields.update(partitions=[[[1], [-1]]]),
    "a partition of three": lambda fields: fields.update(partitions=[[[1], [0], [0]]]),
    "a partition of other things": lambda fields: fields.update(partitions=[["12", {}]]),
    "a directory too short": lambda fields: fields.update(nodes=[[1, "ff"]]),
    "settings of another kind": lambda fields: fields.update(settings=["retention_ms"]),
    "a setting nobody knows": lambda fields: fields.update(settings={"colour": "red"}),
    "a setting out of range": lambda fields: fields.update(settings={"retention_ms": "-9"}),
    "a setting that is no text": lambda fields: fields.update(settings={"retention_ms": 5}),
    "a flag that is no flag": lambda fields: fields.update(deleting="no"),
}


@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_no_registry_wrote_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    fields = json.loads(facts_json.encode_topic(ORDERS))
    spoil(fields)
    with pytest.raises(CorruptFacts, match=r"^/topics/orders cannot be understood"):
        facts_json.decode_topic(json.dumps(fields).encode(), "/topics/orders", 0)


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"null", b"[]", b"7", b"{}", b"[" * 100_000, b'{"format":1}']
)
def test_what_is_no_document_is_refused(data: bytes) -> None:
    for decode in (
        facts_json.decode_broker,
        facts_json.decode_cluster,
        facts_json.decode_deletions,
        facts_json.decode_facts,
        facts_json.decode_producer_ids,
    ):
        with pytest.raises(CorruptFacts) as refused:
            decode(data, "the znode")
        assert len(refused.value.message) < 400


@pytest.mark.parametrize(
    "change",
    [{"address": "no address:x"}, {"host": "a\nb"}, {"id": -1}, {"directory": 7}, {"id": 2**31}],
)
def test_a_broker_that_nobody_could_reach_is_refused(change: dict[str, Any]) -> None:
    fields = json.loads(facts_json.encode_broker(broker(1))) | change
    with pytest.raises(CorruptFacts):
        facts_json.decode_broker(json.dumps(fields).encode(), "/brokers/ids/1")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@given(field=st.sampled_from(sorted(json.loads(facts_json.encode_facts(FACTS)))), value=json_values)
def test_no_value_of_any_field_is_more_than_refused(field: str, value: object) -> None:
    fields = json.loads(facts_json.encode_facts(FACTS)) | {field: value}
    with contextlib.suppress(CorruptFacts):
        facts_json.decode_facts(json.dumps(fields).encode(), "the journal")
