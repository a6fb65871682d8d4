"""Limits of a JoinGroup; what a group does with one is in the scenarios of test_classic."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.messages import GroupConfig, GroupState, JoinRequest
from penstock.model import limits
from penstock.model.errors import GroupFull, InvalidRequest, RebalanceInProgress
from tests.golden.groups.classic_script import subscription
from tests.kit.models.tickets import Named


def request(name: str, **fields: Any) -> JoinRequest:
    ready: dict[str, Any] = {
        "member_id": "",
        "new_member_id": f"{name}-1",
        "client_id": name,
        "client_host": "/10.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (("range", subscription("t")),),
    }
    return JoinRequest(**ready | fields)


def group() -> ClassicGroup:
    return ClassicGroup("g", GroupConfig(initial_rebalance_delay_ms=0))


@pytest.mark.parametrize(
    "fields",
    [
        {"protocols": (("range", bytes(limits.GROUP_MEMBER_BYTES_MAX)),)},
        {"protocols": tuple((f"{n:0100}", b"") for n in range(10_000))},
        {"client_id": "\0" * (limits.GROUP_MEMBER_BYTES_MAX // 6)},
        {"instance_id": "𝄞" * (limits.GROUP_MEMBER_BYTES_MAX // 12)},
    ],
)
def test_a_member_that_is_too_large_is_refused(fields: dict[str, Any]) -> None:
    """The limit is on what it takes of the record, so that no spelling gets around it."""
    machine = group()
    effects = machine.join(Named("t"), request("a", **fields), 0)
    [(ticket, error)] = effects.answers
    assert ticket == Named("t")
    assert isinstance(error, InvalidRequest)
    assert machine.state is GroupState.EMPTY


def test_members_are_bounded_together() -> None:
    machine = group()
    large = (("range", bytes(limits.GROUP_MEMBER_BYTES_MAX * 3 // 4 - 1_000)),)
    count = limits.GROUP_RECORD_BYTES_MAX // limits.GROUP_MEMBER_BYTES_MAX
    for number in range(count):
        assert machine.join(Named(number), request(f"m{number}", protocols=large), 0).answers == []
    [(_, error)] = machine.join(Named("last"), request("last", protocols=large), 0).answers
    assert isinstance(error, GroupFull)
    # One that is in already may come again with as much.
    again = request("m0", member_id="m0-1", protocols=large)
    [(ticket, answer)] = machine.join(Named("again"), again, 0).answers
    assert ticket == Named(0)
    assert isinstance(answer, RebalanceInProgress)
    assert machine.member_count == count


def test_an_empty_protocol_name_is_a_name() -> None:
    """Kafka does not refuse it, so it must not trip the machine."""
    machine = group()
    machine.join(Named("t"), request("a", protocols=(("", b""),)), 0)
    [(_, answer)] = machine.expire(0).answers
    assert answer.protocol == ""
