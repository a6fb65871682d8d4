"""Changes as JSON: read back as written; anything else is one typed error (R-REP-5)."""

from __future__ import annotations

import contextlib
import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import CorruptFacts
from penstock.model.ids import BrokerId, TopicId
from penstock.model.removal import DeletedPartition, DeletedTopic
from penstock.raft.membership import Node
from penstock.registry.changes_json import change_fields, read_change
from penstock.registry.facts import (
    AddPartitions,
    Adopt,
    BeginDeletion,
    Change,
    ChangeBrokerSettings,
    ChangeSettings,
    ChangeTargets,
    CreateTopic,
    DrainBroker,
    ExpireBroker,
    Facts,
    FinishDeletion,
    Move,
    RegisterBroker,
    ReserveProducerIds,
    Seen,
)
from penstock.registry.image import TopicImage, placed
from penstock.registry.json_fields import decoded, document
from tests.kit.registry.facts import broker, ids

ID = TopicId("0123456789abcdef" * 2)
DELETION = DeletedTopic(
    name="orders", topic_id=ID, at_ms=5, partitions=(DeletedPartition(1, 3, 7),)
)
ORDERS = TopicImage(name="orders", id=ID, partitions=(placed(ids(1), (Node(1, 5),)),), version=3)
CHANGES: list[Change] = [
    RegisterBroker(broker=broker(1, host="rack-1", directory=2**64 - 1)),
    ExpireBroker(node=Node(2, 2**64 - 1)),
    DrainBroker(broker=BrokerId(3), is_drained=True),
    ChangeBrokerSettings(broker="", settings={"retention_ms": "6"}, seen={}),
    ChangeBrokerSettings(broker="3", settings={}, seen={"retention_ms": "6"}),
    CreateTopic(name="orders", id=ID, settings={"retention_ms": "5"}, placement=(ids(1, 2),)),
    BeginDeletion(name="orders", deletion=DELETION),
    BeginDeletion(name="orders", deletion=None),
    BeginDeletion(name="orders", deletion=DELETION, last_term=5),
    FinishDeletion(name="orders", id=ID),
    ChangeSettings(name="orders", settings={"retention_ms": "6"}, version=7),
    ChangeSettings(name="orders", settings={}),
    AddPartitions(name="orders", first=3, placement=(ids(1), ids(2, 3))),
    ChangeTargets(moves=(Move("orders", 2, ids(3, 1)),), seen={"orders": Seen(ID, 4)}),
    ReserveProducerIds(count=1000),
    Adopt(facts=Facts(cluster_id="alone", topics={"orders": ORDERS}, next_producer_id=9)),
]


def read(data: bytes) -> Change:
    return decoded(data, "The change", read_change)


def test_every_change_is_among_those_that_are_shown() -> None:
    assert {type(change) for change in CHANGES} == set(get_args(Change))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_each_change_reads_back(change: Change) -> None:
    assert read(document(change_fields(change))) == change


WRONG: list[dict[str, Any]] = [
    {"kind": "create_topik"},
    {"kind": ["create_topic"]},
    {"kind": "reserve_producer_ids", "count": 0},
    {"kind": "reserve_producer_ids", "count": True},
    {"kind": "drain_broker", "broker": -1, "is_drained": True},
    {"kind": "drain_broker", "broker": 1, "is_drained": 1},
    {"kind": "expire_broker", "node": [1, "12"]},
    {"kind": "change_broker_settings", "broker": "-1", "settings": {}, "seen": {}},
    {"kind": "change_broker_settings", "broker": "me", "settings": {}, "seen": {}},
    {"kind": "change_broker_settings", "broker": "", "settings": {"colour": "1"}, "seen": {}},
    {"kind": "finish_deletion", "name": "../orders", "id": ID},
    {"kind": "begin_deletion", "name": "orders", "deletion": None, "last_term": -1},
    {"kind": "create_topic", "name": "orders", "id": ID, "settings": {}, "placement": []},
    {"kind": "create_topic", "name": "orders", "id": ID, "settings": {}, "placement": [[1, 1]]},
    {
        "kind": "create_topic",
        "name": "orders",
        "id": ID,
        "settings": {"x": "1"},
        "placement": [[1]],
    },
    {"kind": "change_targets", "moves": [["orders", 1]], "seen": {}},
    {"kind": "change_targets", "moves": [], "seen": []},
    {"kind": "adopt", "facts": {}},
    {},
]


@pytest.mark.parametrize("fields", WRONG, ids=str)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(CorruptFacts, match="The change cannot be understood"):
        read(document(fields))


@given(
    st.sampled_from(CHANGES),
    st.data(),
    st.one_of(st.none(), st.integers(), st.text(), st.booleans(), st.lists(st.integers())),
)
def test_any_field_may_be_anything(change: Change, data: st.DataObject, value: Any) -> None:
    fields = change_fields(change)
    fields[data.draw(st.sampled_from(sorted(fields)))] = value
    with contextlib.suppress(CorruptFacts):
        read(json.dumps({"format": 1, **fields}).encode())
