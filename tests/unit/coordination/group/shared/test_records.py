"""The records of a shared group: what was written is read, and what was not is refused."""

from __future__ import annotations

import pytest

from penstock.coordination.group.assignors.assignment import Assignment
from penstock.coordination.group.shared.membership import ShareMembership
from penstock.coordination.group.shared.records import (
    ShareFacts,
    decode_shared,
    encode_facts,
    encode_member,
    encode_share_target,
    shared_tombstones,
)
from penstock.coordination.group.shared.settings import SharedFilter, SharedSettings
from penstock.model.errors import CorruptLog
from penstock.model.ids import TopicId

FACTS = ShareFacts(
    incarnation="one",
    settings=SharedSettings(lease_ms=5_000, filter=SharedFilter(tags=("a",), key=b"\xff")),
    epoch=3,
    assignment_epoch=2,
    topics_digest="digest",
    empty_since_ms=7,
)
MEMBER = ShareMembership(
    rack_id="r", client_id="c", client_host="h", topic_names=frozenset({"x", "y"})
)
TARGET: Assignment = {TopicId("x"): (0, 2), TopicId("y"): (1,)}


def test_what_was_written_is_read() -> None:
    records = [
        encode_facts("g", FACTS),
        encode_member("g", "m", MEMBER),
        encode_share_target("g", "m", TARGET),
    ]
    saved = decode_shared((one.key, one.value or b"") for one in records)
    assert (saved.facts, saved.members, saved.targets) == (FACTS, {"m": MEMBER}, {"m": TARGET})


def test_tombstones_name_what_was_written() -> None:
    written = {encode_member("g", "m", MEMBER).key, encode_share_target("g", "m", TARGET).key}
    assert {one.key for one in shared_tombstones("g", "m")} == written


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'{"kind":"share-group","group":"g"}', b"{}"),
        (b'{"kind":"share-group","group":"g"}', b"[]"),
        (b'{"kind":"share-group","group":"g"}', b"\xff"),
        (b'{"kind":"share-member","group":"g"}', b"{}"),
        (b'{"kind":"share-member","group":"g","member":"m"}', b'{"topic_names":1}'),
        (b'{"kind":"share-target","group":"g","member":"m"}', b'{"partitions":{"x":1}}'),
        (b'{"kind":"share-other","group":"g"}', b"{}"),
        (b"[]", b"{}"),
    ],
)
def test_what_was_not_written_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode_shared([(key, value)])
