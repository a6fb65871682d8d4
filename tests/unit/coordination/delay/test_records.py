"""What stands in `__delayed` reads back as it was written, and damage is never believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordination.delay.records import (
    Arrived,
    Cancelled,
    Decided,
    Due,
    Fired,
    Head,
    LaneRecord,
    Share,
    decode_cancelled,
    decode_decided,
    decode_head,
    decode_lane,
    decode_names,
    encode_cancelled,
    encode_decided,
    encode_head,
    encode_lane,
    encode_names,
    key_hash,
    size_of,
)
from penstock.model.errors import CorruptLog

times = st.integers(0, 2**62)
sizes = st.integers(1, 2**32 - 1)


@st.composite
def heads(draw: st.DrawFn) -> Head:
    count = draw(st.integers(1, 20))

    def several(of: st.SearchStrategy[int]) -> tuple[int, ...]:
        return tuple(draw(st.lists(of, min_size=count, max_size=count)))

    has_token = draw(st.booleans())
    return Head(
        lane=draw(st.integers(0, 2**32 - 1)),
        due_ms=several(times),
        sizes=several(sizes),
        is_ordered=draw(st.booleans()),
        numbers=several(times) if draw(st.booleans()) else None,
        token=draw(st.binary(min_size=16, max_size=16)) if has_token else b"",
        request_index=draw(st.integers(0, 2**31)) if has_token else 0,
        request_messages=draw(st.integers(1, 2**31)) if has_token else 0,
        fired=draw(st.none() | st.builds(Fired, st.text(max_size=20), times)),
    )


@given(heads())
def test_heads_read_back(head: Head) -> None:
    assert decode_head(encode_head(head)) == head


@given(heads(), st.data())
def test_a_head_that_was_cut_or_has_more_is_refused(head: Head, data: st.DataObject) -> None:
    encoded = encode_head(head)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    for wrong in (encoded[:cut], encoded + b"x"):
        with pytest.raises(CorruptLog):
            decode_head(wrong)


def test_messages_have_the_offsets_behind_the_head_until_they_are_moved() -> None:
    head = Head(lane=1, due_ms=(5, 6), sizes=(1, 1))
    assert head.dues(10) == [Due(5, 11), Due(6, 12)]
    moved = Head(lane=1, due_ms=(5, 6), sizes=(1, 1), numbers=(11, 12))
    assert moved.dues(99) == [Due(5, 11), Due(6, 12)]


def test_other_records_read_back() -> None:
    cancelled = [Cancelled(Due(1, 2), 3, 4), Cancelled(Due(5, 6), 7, 8)]
    assert decode_cancelled(encode_cancelled(cancelled)) == cancelled
    decided = Decided(
        frontier=Due(1, 2),
        shares=(Share(1, 2, 3),),
        arrived=(Arrived(1, 2, 3, 4, 5, Due(6, 7)),),
    )
    assert decode_decided(encode_decided(decided)) == decided
    lane = LaneRecord(lane=1, topic="t", topic_id="i", partition=2, producer_id=2**62)
    assert decode_lane(encode_lane(lane)) == lane
    assert decode_names(encode_names(["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize("decode", [decode_cancelled, decode_decided, decode_lane, decode_names])
@pytest.mark.parametrize("data", [b"", b"{", b"[[1]]", b"{}", b"7", b"\xff"])
def test_nonsense_is_corruption(decode: object, data: bytes) -> None:
    if data == b"{}" and decode in (decode_names, decode_cancelled):
        return  # none at all
    if data == b"[[1]]" and decode is decode_names:
        return
    assert callable(decode)
    with pytest.raises(CorruptLog):
        decode(data)


def test_sizes_count_everything() -> None:
    assert size_of(None, None, ()) > 0
    assert size_of(b"ab", b"cde", (("n", b"v"), ("m", None))) > size_of(b"ab", b"cde", ())


def test_keys_of_two_lanes_differ() -> None:
    assert key_hash(1, b"k") != key_hash(2, b"k")
    assert len(key_hash(1, b"")) == 20
