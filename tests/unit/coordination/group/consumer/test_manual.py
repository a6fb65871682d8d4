"""Claims of partitions: how they are read from a group's records. Scenarios are in tests/golden."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.coordination.group.consumer.messages import ConsumerHeartbeatAnswer
from penstock.model.errors import InvalidRequest, PartitionClaimed
from penstock.model.limits import NAMES_PER_CALL_MAX
from tests.kit.models.group_coordinator import Shell

MANUAL: dict[str, Any] = {"assignor": "manual", "claims": (("orders", 1),)}


def test_a_claim_survives_a_restart_and_names_its_holder() -> None:
    """R-DEL-2: also after the broker has changed."""
    shell = Shell()
    answer = shell.consumer("g", **MANUAL, client_id="till-1", client_host="10.0.0.1")
    assert isinstance(answer, ConsumerHeartbeatAnswer)
    refused = shell.restarted().consumer("g", **MANUAL, member_id="other")
    assert isinstance(refused, PartitionClaimed)
    for word in ("orders-1", "till-1", "10.0.0.1", "member"):
        assert word in refused.message


def test_a_member_may_take_its_claims_back() -> None:
    """It joins again, under its own id, and asks for another assignor."""
    shell = Shell()
    shell.consumer("g", **MANUAL)
    again = shell.consumer("g", assignor="range")
    assert isinstance(again, ConsumerHeartbeatAnswer)
    assert again.assignment is not None
    assert [len(partitions) for partitions in again.assignment.values()] == [2]
    assert isinstance(shell.consumer("g", **MANUAL, member_id="other"), ConsumerHeartbeatAnswer)


def test_records_of_earlier_versions_claim_nothing() -> None:
    shell = Shell()
    shell.consumer("g")
    for place, record in enumerate(shell.log):
        value = json.loads(record.value or b"null")
        if value and "claims" in value:
            del value["claims"]
            shell.log[place] = type(record)(key=record.key, value=json.dumps(value).encode())
    assert isinstance(shell.restarted().consumer("g", 1), ConsumerHeartbeatAnswer)


def test_claims_are_bounded() -> None:
    claims = tuple(("orders", number) for number in range(NAMES_PER_CALL_MAX + 1))
    refused = Shell().consumer("g", assignor="manual", claims=claims)
    assert isinstance(refused, InvalidRequest)


@pytest.mark.parametrize("changes", [{"claims": ()}, {"assignor": "manual"}])
def test_half_a_claim_is_refused(changes: dict[str, Any]) -> None:
    assert isinstance(Shell().consumer("g", **changes), Exception)
