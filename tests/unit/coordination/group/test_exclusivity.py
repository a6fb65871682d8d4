"""Claims of topics: the scenarios of tests/golden/claims, and what a scenario cannot say."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.coordination.group import exclusivity as producer_claims
from penstock.coordination.group.exclusivity import ClaimRequest, ExclusiveTopics, claim_key
from penstock.coordination.group.records import CONFIRMATION, read_key
from penstock.coordination.group.table import GroupTable
from penstock.model.errors import Busy, CorruptLog
from tests.golden.claims_script import ClaimsScript
from tests.kit.models.group_coordinator import CONFIG
from tests.kit.models.tickets import Named
from tests.kit.runs.golden_files import run_golden

SCENARIOS = sorted((Path(__file__).parents[3] / "golden" / "claims").glob("*.txt"))


def request(topic: str, claimant: str = "a") -> ClaimRequest:
    return ClaimRequest(topic=topic, topic_id=topic, claimant=claimant, client_name="client")


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    """R-CORE-6"""
    run_golden(path, ClaimsScript().interpret)


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) == 4


def test_no_more_claims_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_claims, "CLAIMS_MAX", 2)
    claims = ExclusiveTopics()
    for topic in ("x", "y"):
        claims.claim(Named("t"), request(topic), 0)
    with pytest.raises(Busy, match="2 claims of topics and no more"):
        claims.claim(Named("t"), request("z"), 0)
    assert len(claims) == 2
    # One that is there already is not one more.
    assert claims.claim(Named("t"), request("x"), 0).answers
    assert len(claims.forget_gone(lambda name: name if name == "y" else None)) == 1
    claims.claim(Named("t"), request("z"), 0)


@pytest.mark.parametrize("value", [b"{}", b"[]", b"\xff", b'{"topic": "x", "claim": "many"}'])
def test_a_record_that_makes_no_sense_is_told_of(value: bytes) -> None:
    with pytest.raises(CorruptLog, match="claim of topic x"):
        ExclusiveTopics().apply("x", value)


def test_claims_are_in_the_records_of_the_groups() -> None:
    table = GroupTable(CONFIG)
    effects = table.exclusive_topics.claim(Named("t"), request("x"), 0)
    [record] = effects.records
    assert list(table.checkpoint().records()) == [(record.key, record.value)]
    assert len(table.checkpoint()) == 1
    again = GroupTable(CONFIG)
    again.apply(record.key, record.value, 0)
    again.apply(CONFIRMATION.key, CONFIRMATION.value, 0)
    assert again.restored(0) == []
    assert len(again.exclusive_topics) == 1
    assert len(again) == 0, "no group comes of it"
    again.apply(claim_key("x"), None, 0)
    assert len(again.exclusive_topics) == 0


def test_a_key_without_a_topic_is_told_of() -> None:
    with pytest.raises(CorruptLog):
        read_key(b'{"kind": "claim"}')
