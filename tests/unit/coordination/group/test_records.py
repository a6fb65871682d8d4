"""The records of the internal topic: written alike by every version, read whatever they are."""

from __future__ import annotations

import json

import pytest

from penstock.coordination.group.offsets import CommittedOffset
from penstock.coordination.group.records import (
    encode_offset,
    offset_key,
    read_key,
    read_offset,
)
from penstock.model.errors import CorruptLog

COMMITTED = CommittedOffset(
    topic="orders",
    topic_id="0a" * 16,
    partition=3,
    offset=42,
    leader_epoch=5,
    metadata='a "note" of ünïcode',
    committed_ms=1_000,
    expires_ms=2_000,
)


@pytest.mark.parametrize("committed", [COMMITTED, COMMITTED._replace(expires_ms=None, metadata="")])
def test_an_offset_comes_back_as_it_was(committed: CommittedOffset) -> None:
    record = encode_offset('gr"oup', committed)
    key = read_key(record.key)
    assert (key.kind, key.group, key.topic, key.partition) == ("offset", 'gr"oup', "orders", 3)
    assert record.value is not None
    assert read_offset(key, record.value, 7) == committed


def test_keys_are_those_of_earlier_versions() -> None:
    """Or compaction would keep an old record beside the new one of the same offset."""
    for group in ("billing", 'a"b', "ünïcode"):
        old = json.dumps({"group": group, "topic": "orders", "partition": 3}).encode()
        assert offset_key(group, "orders", 3) == old


def test_values_are_json() -> None:
    value = encode_offset("g", COMMITTED).value
    assert value is not None
    assert json.loads(value)["metadata"] == COMMITTED.metadata


def test_a_record_of_an_earlier_version_was_committed_when_it_was_written() -> None:
    """R-DEL-10: offsets outlive an update of the broker."""
    key = read_key(b'{"group": "g", "topic": "orders", "partition": 0}')
    value = b'{"offset": 9, "metadata": "note", "topic_id": "id"}'
    assert read_offset(key, value, 7) == CommittedOffset(
        topic="orders", topic_id="id", partition=0, offset=9, metadata="note", committed_ms=7
    )


@pytest.mark.parametrize(
    "key",
    [b"", b"[]", b"7", b"{}", b'{"group": "g"}', b'{"kind": "group"}', b"\xff", b'{"group": 1}'],
)
def test_a_key_that_makes_no_sense_is_damage(key: bytes) -> None:
    with pytest.raises(CorruptLog):
        read_key(key)


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"offset": "x"}', b"\xff"])
def test_a_value_that_makes_no_sense_is_damage(value: bytes) -> None:
    with pytest.raises(CorruptLog):
        read_offset(read_key(offset_key("g", "t", 0)), value, 0)
