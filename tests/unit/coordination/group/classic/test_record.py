"""The record of a classic group: there and back, and damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.coordination.group.classic.member import Member
from penstock.coordination.group.classic.record import (
    GroupSnapshot,
    decode_group,
    encode_group,
    group_key,
)
from penstock.model.errors import CorruptLog

MEMBER = Member(
    member_id="m",
    instance_id="one",
    client_id="cliënt",
    client_host="/10.0.0.1",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    protocols=(("range", bytes(range(256))), ("sticky", b"")),
)
STABLE = GroupSnapshot(
    generation=7,
    protocol_type="consumer",
    protocol="range",
    leader="m",
    empty_since_ms=None,
    members=(MEMBER,),
    assignments={"m": b"\x00\xff"},
)
EMPTY = GroupSnapshot(
    generation=8,
    protocol_type="consumer",
    protocol=None,
    leader=None,
    empty_since_ms=1_700_000_000_000,
    members=(),
    assignments={},
)


@pytest.mark.parametrize("snapshot", [STABLE, EMPTY])
def test_a_group_comes_back_as_it_was(snapshot: GroupSnapshot) -> None:
    """R-STO-7: the state of a group survives in its record."""
    record = encode_group("g", snapshot)
    assert record.value is not None
    assert decode_group("g", record.value) == snapshot


def test_a_person_can_read_it() -> None:
    assert json.loads(group_key("bïlling")) == {"kind": "group", "group": "bïlling"}
    value = json.loads(encode_group("g", STABLE).value or b"")
    assert value["generation"] == 7
    assert value["members"][0]["client"] == "cliënt"
    assert value["members"][0]["assignment"] == "AP8="


def damaged(**changes: Any) -> bytes:
    return json.dumps(json.loads(encode_group("g", STABLE).value or b"") | changes).encode()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"members": 3}',
        damaged(generation=None),
        damaged(leader=None),
        damaged(protocol="other"),
        damaged(members=[{}]),
        damaged(members=json.loads(damaged())["members"] * 2),
        damaged(members=[json.loads(damaged())["members"][0] | {"assignment": "?"}]),
    ],
)
def test_a_damaged_record_is_named(value: bytes) -> None:
    with pytest.raises(CorruptLog, match="group 'g' cannot be read"):
        decode_group("g", value)
