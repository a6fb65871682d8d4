"""The durable state of a shared group: what is written is read back, and nothing else is."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from penstock.coordination.delivery.shared_state import (
    SavedKind,
    SavedRun,
    ShareState,
    decode_share_state,
    encode_share_state,
)
from penstock.model.errors import CorruptLog
from penstock.model.limits import SHARE_REASONS_BYTES_MAX

COUNTS = st.integers(0, 2**62)


@st.composite
def saved_runs(draw: st.DrawFn) -> SavedRun:
    kind = draw(st.sampled_from(SavedKind))
    return SavedRun(
        draw(st.integers(1, 300)),
        kind,
        draw(st.integers(0, 100)),
        draw(st.integers(1, 10**9)) * 1000 if kind is SavedKind.WAITING else 0,
        draw(st.sampled_from(["", "why", "schön", "x" * 256])) if kind is SavedKind.DYING else "",
    )


@st.composite
def states(draw: st.DrawFn) -> ShareState:
    start = draw(st.integers(0, 2**60))
    return ShareState(
        start=start,
        ceiling=start + draw(st.integers(0, 10_000)),
        acknowledged=draw(COUNTS),
        expired=draw(COUNTS),
        dead=draw(COUNTS),
        runs=draw(st.lists(saved_runs(), max_size=30)),
    )


def by_offset(state: ShareState) -> list[tuple[object, ...]]:
    """Each message for itself, without the free ones at the end, which need not be written."""
    each: list[tuple[object, ...]] = [run[1:] for run in state.runs for _ in range(run.length)]
    while each and each[-1] == (SavedKind.FREE, 0, 0, ""):
        each.pop()
    return each


@given(states())
def test_what_is_written_is_read_back(state: ShareState) -> None:
    read = decode_share_state(encode_share_state(state))
    assert by_offset(read) == by_offset(state)
    assert (read.start, read.ceiling) == (state.start, state.ceiling)
    assert read.acknowledged == state.acknowledged
    assert (read.expired, read.dead) == (state.expired, state.dead)


@given(states(), st.data())
def test_bytes_that_are_cut_short_or_changed_are_refused_or_make_sense(
    state: ShareState, data: st.DataObject
) -> None:
    encoded = bytearray(encode_share_state(state))
    position = data.draw(st.integers(0, len(encoded) - 1))
    if data.draw(st.booleans()):
        del encoded[position:]
    else:
        encoded[position] = data.draw(st.integers(0, 255))
    read_or_refused(bytes(encoded))


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_make_sense(encoded: bytes) -> None:
    read_or_refused(encoded)
    read_or_refused(b"\x01" + encoded)


def read_or_refused(encoded: bytes) -> None:
    try:
        state = decode_share_state(encoded)
    except CorruptLog:
        return
    assert 0 <= state.start <= state.ceiling < 2**63
    encode_share_state(state)


def test_a_time_is_rounded_up_so_that_nothing_is_early() -> None:
    run = SavedRun(1, SavedKind.WAITING, 0, 1_234_567)
    state = ShareState(start=0, ceiling=1, runs=[run])
    assert decode_share_state(encode_share_state(state)).runs[0].until_ms == 1_235_000


def test_reasons_beyond_the_limit_are_left_out() -> None:
    runs = [SavedRun(1, SavedKind.DYING, 1, 0, f"{number:04}" * 50) for number in range(100)]
    encoded = encode_share_state(ShareState(start=0, ceiling=100, runs=runs))
    assert len(encoded) < SHARE_REASONS_BYTES_MAX + 500
    reasons = [run.reason for run in decode_share_state(encoded).runs if run.reason]
    assert reasons == [run.reason for run in runs[: len(reasons)]]
    assert len(reasons) == SHARE_REASONS_BYTES_MAX // 202


@pytest.mark.parametrize(
    ("encoded", "why"),
    [
        (b"", "cut short"),
        (b"\x02", "format 2"),
        (b"\x01" + b"\xff" * 20, "no end"),
        (b"\x01\x00\xff\xff\x7f", "more than 10000"),
        (bytes([1, 0, 0, 0, 0, 0, 0, 1, 5, 65]), "cut short"),
        (bytes([1, 0, 0, 0, 0, 0, 0, 1, 1, 0xFF]), "no text"),
        (bytes([1, 0, 0, 0, 0, 0, 0, 0, 0x10]), "kind 16"),
        (bytes([1, 0, 0, 0, 0, 0, 0, 0, 0x00, 0]), "empty"),
        (bytes([1, 0, 0, 0, 0, 0, 0, 0, 0x0C, 101]), "more than 100"),
        (bytes([1, 0, 0, 0, 0, 0, 0, 0, 0x07, 1]), "more than 0"),
        (bytes([1, 0, 0, 0, 0, 0, 0, 0]) + b"\x00\x90\x4e\x00\x90\x4e", "more than 10000"),
        (b"\x01" + b"\xff" * 8 + b"\x7f" + bytes([1, 0, 0, 0, 0, 0]), "begins at offset"),
    ],
)
def test_what_nothing_could_have_written_is_refused(encoded: bytes, why: str) -> None:
    with pytest.raises(CorruptLog, match=why):
        decode_share_state(encoded)
