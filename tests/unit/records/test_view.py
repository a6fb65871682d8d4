"""records.view: batches one by one, control batches among them."""

from __future__ import annotations

import pytest

from penstock.model.errors import CorruptBatch
from penstock.records import build_batch, control_batch
from penstock.records.view import Record, batches


def test_batches_with_all_that_is_in_them() -> None:
    payload = build_batch([(b"a", b"1"), (None, None)], timestamp_ms=5, codec=1, base_offset=10)
    payload += control_batch(2, b"leader", timestamp_ms=6, base_offset=12)
    data, control = batches(payload)
    assert (data.header.base_offset, data.header.is_control) == (10, False)
    assert data.records() == [Record(10, 5, b"a", b"1", ()), Record(11, 5, None, None, ())]
    assert control.header.is_control
    assert control.records() == [Record(12, 6, b"\x00\x00\x00\x02", b"leader", ())]
    assert bytes(data.view) + bytes(control.view) == payload


def test_damage_is_found_at_its_batch() -> None:
    payload = build_batch([(None, b"sound")]) + build_batch([(None, b"damaged")], base_offset=1)
    payload[-1] ^= 1
    found = batches(payload)
    assert next(found).header.base_offset == 0
    with pytest.raises(CorruptBatch, match="base offset 1"):
        next(found)


def test_an_empty_payload_has_no_batches() -> None:
    assert list(batches(b"")) == []
