"""The leader's own records: clients skip them, followers understand them."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidBatch
from penstock.raft.membership import Membership, Node
from penstock.records import build_batch, control_batch, decode_messages
from penstock.records.header import read_header
from penstock.replication.replica.control import first_of_term, membership_batch, read_membership

MEMBERSHIP = Membership(frozenset({Node(1, 5), Node(2, 2**62)}), frozenset({Node(3, 0)}))


def read(batch: bytearray) -> Membership | None:
    return read_membership(read_header(batch), memoryview(batch))


def test_a_membership_comes_back() -> None:
    assert read(membership_batch(MEMBERSHIP, 1_000)) == MEMBERSHIP


def test_other_batches_are_none() -> None:
    assert read(first_of_term(1_000)) is None
    assert read(build_batch([(b"key", b"value")])) is None
    assert read(control_batch(0, b"\0\0\0\0\0\0", timestamp_ms=0)) is None


def test_clients_do_not_see_them() -> None:
    batches = bytes(first_of_term(1_000)) + bytes(membership_batch(MEMBERSHIP, 1_000))
    assert decode_messages(batches, "t", 0, 0) == []


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"[]",
        b"[[], []]",
        b"[[[1]], []]",
        b"[[[1, -1]], []]",
        b"[[[1, 1]], [[1, 1]]]",
        b"\xff",
    ],
)
def test_nonsense_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidBatch):
        read(control_batch(0x5053, value, timestamp_ms=0))


def test_a_key_that_is_none_is_refused() -> None:
    batch = control_batch(0x5053, b"", timestamp_ms=0)
    plain = build_batch([(b"k", b"v")])
    header = read_header(plain)
    control = header._replace(attributes=read_header(batch).attributes)
    with pytest.raises(InvalidBatch):
        read_membership(control, memoryview(plain))
