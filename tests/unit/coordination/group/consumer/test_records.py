"""Records of consumer groups: readable, and the same when read again; what is not is refused."""

from __future__ import annotations

import json

import pytest

from penstock.coordination.group.consumer.membership import Membership
from penstock.coordination.group.consumer.reconciliation import Current, MemberState
from penstock.coordination.group.consumer.records import (
    Epochs,
    decode,
    encode_current,
    encode_epochs,
    encode_membership,
    encode_target,
    member_tombstones,
)
from penstock.coordination.group.effects import Record
from penstock.model.errors import CorruptLog
from penstock.model.ids import TopicId

TOPIC = TopicId("ab" * 16)
EPOCHS = Epochs(epoch=4, assignment_epoch=3, topics_digest="1f", empty_since_ms=17)
MEMBERSHIP = Membership(
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=5,
    topic_names=frozenset({"orders", "Öl"}),
    topic_pattern="a.*",
    assignor="range",
)
CURRENT = Current(
    epoch=3,
    previous_epoch=2,
    state=MemberState.UNREVOKED,
    assigned={TOPIC: (0, 1)},
    revoking={TOPIC: (2,)},
)


def pair(record: Record) -> tuple[bytes, bytes]:
    assert record.value is not None
    return record.key, record.value


RECORDS = [
    pair(encode_current("g", "m", CURRENT)),
    pair(encode_membership("g", "m", MEMBERSHIP)),
    pair(encode_epochs("g", EPOCHS)),
    pair(encode_target("g", "m", {TOPIC: (0, 1)})),
]


def test_a_person_can_read_them() -> None:
    assert RECORDS[0] == (
        b'{"kind":"consumer-current","group":"g","member":"m"}',
        b'{"epoch":3,"previous_epoch":2,"state":"unrevoked","assigned":{"'
        + TOPIC.encode()
        + b'":[0,1]},"revoking":{"'
        + TOPIC.encode()
        + b'":[2]}}',
    )
    assert RECORDS[2] == (
        b'{"kind":"consumer-group","group":"g"}',
        b'{"epoch":4,"assignment_epoch":3,"topics_digest":"1f","empty_since_ms":17}',
    )


@pytest.mark.parametrize("records", [RECORDS, RECORDS[::-1]])
def test_they_read_back_in_any_order(records: list[tuple[bytes, bytes]]) -> None:
    """Compaction keeps the last record of each key, wherever that stands."""
    saved = decode(records)
    assert saved.epochs == EPOCHS
    assert saved.memberships == {"m": MEMBERSHIP}
    assert saved.targets == {"m": {TOPIC: (0, 1)}}
    assert saved.currents == {"m": CURRENT}


def test_a_member_that_is_gone_leaves_no_key_behind() -> None:
    keys = {key for key, _ in RECORDS}
    tombstones = member_tombstones("g", "m")
    assert {record.value for record in tombstones} == {None}
    assert keys - {record.key for record in tombstones} == {RECORDS[2][0]}


@pytest.mark.parametrize("place", range(len(RECORDS)))
def test_a_damaged_record_is_refused(place: int) -> None:
    key, value = RECORDS[place]
    for name in json.loads(value):
        damaged = json.loads(value) | {name: ["?", {}]}
        with pytest.raises(CorruptLog, match=name if name != "state" else "state"):
            decode([(key, json.dumps(damaged).encode())])
    for bad_key, bad_value in (
        (key, b"[]"),
        (key, b"{"),
        (key, b"\xff"),
        (b"1", value),
        (b'{"kind":"consumer-else","group":"g"}', value),
        (b'{"kind":"consumer-target","group":"g"}', value),
    ):
        with pytest.raises(CorruptLog):
            decode([(bad_key, bad_value)])


def test_an_unknown_state_is_refused() -> None:
    key, value = RECORDS[0]
    with pytest.raises(CorruptLog, match="state 'happy'"):
        decode([(key, value.replace(b"unrevoked", b"happy"))])
