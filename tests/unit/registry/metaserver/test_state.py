"""The state machine of the meta servers, and its snapshots (R-REP-5, R-STO-7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.model import limits
from penstock.model.errors import CorruptFacts, InvalidConfig, InvalidRequest, TopicExists
from penstock.model.ids import TopicId
from penstock.registry.facts import (
    CreateTopic,
    ExpireBroker,
    RegisterBroker,
    ReserveProducerIds,
)
from penstock.registry.metaserver import state as state_module
from penstock.registry.metaserver.entries import Action, Confirm, Entry, MakeCluster
from penstock.registry.metaserver.state import (
    MetaState,
    Outcome,
    decode_snapshot,
    encode_snapshot,
)
from tests.kit.registry.facts import broker, ids

ONE, TWO = broker(1), broker(2)


def entry(number: int, action: Action) -> Entry:
    return Entry(number.to_bytes(16), action)


def topic(name: str = "orders") -> CreateTopic:
    return CreateTopic(name=name, id=TopicId("a" * 32), settings={}, placement=(ids(1),))


@pytest.fixture
def state() -> MetaState:
    made = MetaState()
    made.apply(entry(1, MakeCluster(cluster_id="cluster")))
    made.apply(entry(2, RegisterBroker(broker=ONE)))
    return made


def test_before_there_is_a_cluster_everything_else_is_refused() -> None:
    state = MetaState()
    outcome, is_news = state.apply(entry(1, topic()))
    assert isinstance(outcome.refusal, InvalidRequest)
    assert not is_news
    assert state.apply(entry(2, MakeCluster(cluster_id="cluster"))) == (Outcome(0), True)
    assert state.apply(entry(3, MakeCluster(cluster_id="other"))) == (Outcome(0), False)
    assert state.facts is not None
    assert state.facts.cluster_id == "cluster"


def test_an_entry_that_comes_again_has_the_outcome_it_had(state: MetaState) -> None:
    reserve = entry(3, ReserveProducerIds(count=10))
    first, is_news = state.apply(reserve)
    assert (first.next_producer_id, first.version, first.controller) == (0, 2, 1)
    assert is_news
    state.apply(entry(4, ReserveProducerIds(count=5)))
    assert state.apply(reserve) == (first, False)
    assert state.facts is not None
    assert state.facts.next_producer_id == 15


def test_a_refusal_is_remembered_too(state: MetaState) -> None:
    """A request may arrive late: what its sender was told must stay true."""
    state.apply(entry(3, topic()))
    facts = state.facts
    refused, is_news = state.apply(entry(4, topic()))
    assert isinstance(refused.refusal, TopicExists)
    assert not is_news
    assert state.facts is facts
    state.apply(entry(5, RegisterBroker(broker=TWO)))
    assert state.apply(entry(4, topic("events"))) == (refused, False)


def test_so_many_outcomes_are_remembered(state: MetaState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "META_OUTCOMES_MAX", 3)
    for number in range(10, 20):
        state.apply(entry(number, ReserveProducerIds(count=1)))
    assert len(state.snapshot(0).outcomes) == 3
    assert state.apply(entry(19, ReserveProducerIds(count=1)))[1] is False
    assert state.apply(entry(10, ReserveProducerIds(count=1)))[1] is True, "long forgotten"


def test_a_confirmation_leaves_no_trace(state: MetaState) -> None:
    before = state.snapshot(0)
    assert state.apply(entry(3, Confirm())) == (Outcome(1, 0, 1), False)
    assert state.snapshot(0) == before


def controller(state: MetaState) -> int | None:
    return state.controller


def test_the_controller_stays_as_long_as_it_is_alive(state: MetaState) -> None:
    state.apply(entry(3, RegisterBroker(broker=broker(0))))
    assert controller(state) == 1
    state.apply(entry(4, ExpireBroker(node=broker(1, directory=7).node)))
    assert controller(state) == 1, "that was another folder's"
    state.apply(entry(5, ExpireBroker(node=ONE.node)))
    assert controller(state) == 0
    state.apply(entry(6, RegisterBroker(broker=ONE)))
    assert controller(state) == 0
    outcome, _ = state.apply(entry(7, RegisterBroker(broker=broker(0, directory=7))))
    assert isinstance(outcome.refusal, InvalidConfig)
    state.apply(entry(8, ExpireBroker(node=ONE.node)))
    outcome, _ = state.apply(entry(9, ExpireBroker(node=broker(0).node)))
    assert (controller(state), outcome.controller) == (None, -1)


def test_there_are_no_more_topics_than_can_be_told(
    state: MetaState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_module, "TOPICS_MAX", 1)
    state.apply(entry(3, topic()))
    outcome, _ = state.apply(entry(4, topic("events")))
    assert isinstance(outcome.refusal, InvalidRequest)


def test_a_snapshot_reads_back(state: MetaState) -> None:
    state.apply(entry(3, topic()))
    state.apply(entry(4, topic()))
    for made in (state.snapshot(17), MetaState().snapshot(0)):
        assert decode_snapshot(encode_snapshot(made), "it") == made
        assert made.restore().snapshot(made.offset) == made


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("offset", -1),
        ("facts", 7),
        ("facts", {}),
        ("controller", "1"),
        ("outcomes", {}),
        ("outcomes", [[]]),
        ("outcomes", [["00", 1, 2, 3, 4, ""]]),
        ("outcomes", [["0" * 32, "x", 2, 3, 4, ""]]),
        ("outcomes", [["0" * 32, 1, 2, 3, -4, ""]]),
        ("outcomes", [["0" * 32, 1, 2, 3, 0, ""]] * (limits.META_OUTCOMES_MAX + 1)),
        ("format", 2),
    ],
    ids=lambda value: str(value)[:40],
)
def test_anything_else_is_refused(state: MetaState, field: str, value: Any) -> None:
    fields = json.loads(encode_snapshot(state.snapshot(0)))
    fields[field] = value
    with pytest.raises(CorruptFacts, match="it cannot be understood"):
        decode_snapshot(json.dumps(fields).encode(), "it")
