"""Some neighbours out of a batch, read by our decoder and by other people's."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import InvalidBatch
from penstock.records import BatchBuilder, Message, decode_batch, decode_messages, slicing
from penstock.records.header import check_batch, read_header, stamp
from penstock.records.plain import plain_batch
from penstock.records.rewrite import keep_records, open_batch
from penstock.records.slicing import SliceableBatch
from penstock.records.view import batches
from tests.kit.records.implementations import IMPLEMENTATIONS, Implementation
from tests.kit.records.oracles import aiokafka_read

NOW_MS = 1_700_000_000_000
BYTES_MAX = 1 << 20
FIRST = 100
COUNT = 10


def built(codec: int = 0) -> memoryview:
    builder = BatchBuilder(BYTES_MAX, codec)
    for number in range(COUNT):
        value = None if number % 3 == 0 else b"value " * number
        builder.append(NOW_MS + number, b"key %d" % number, value, [("h", b"%d" % number)])
    batch = memoryview(bytearray(builder.build(producer_id=7, producer_epoch=1, base_sequence=5)))
    stamp(batch, FIRST, 3)
    return batch


def sliceable(batch: memoryview) -> SliceableBatch:
    return SliceableBatch(batch, plain_batch(check_batch(batch), batch, BYTES_MAX))


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize(("first", "last"), [(100, 100), (103, 106), (109, 109), (90, 101)])
def test_the_records_asked_for_as_they_were(codec: int, first: int, last: int) -> None:
    """R-DEL-3: who leases a part of a batch gets that part."""
    batch = built(codec)
    everything = decode_messages(batch, "orders", 0, 0)
    cut = sliceable(batch).between(first, last)
    found = decode_messages(cut, "orders", 0, 0)
    wanted = [message for message in everything if first <= message.offset <= last]
    assert [repr(message) for message in found] == [repr(message) for message in wanted]
    assert [placed[0] for placed in aiokafka_read(bytes(cut))] == [
        message.offset for message in wanted
    ]


def test_the_whole_batch_is_not_built_again() -> None:
    batch = built(4)
    assert sliceable(batch).between(0, 1_000) is batch


def test_nothing_where_there_is_nothing() -> None:
    assert sliceable(built()).between(110, 200) == b""


def test_a_slice_has_no_producer() -> None:
    """It must not be taken for the batch that its producer may send again."""
    header = read_header(sliceable(built()).between(103, 104))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def test_gaps_stay() -> None:
    """A compacted batch, whose records are not neighbours."""
    batch = built()
    pieces = sliceable(batch)
    pieces.offsets[5:] = array("q", [offset + 3 for offset in pieces.offsets[5:]])
    assert bytes(pieces.between(105, 107)) == b""


def test_records_that_make_no_sense() -> None:
    batch = built(1)
    header = check_batch(batch)
    with pytest.raises(InvalidBatch):
        plain_batch(header, batch, 10)
    with pytest.raises(InvalidBatch):
        SliceableBatch(
            batch, plain_batch(header._replace(record_count=COUNT + 1), batch, BYTES_MAX)
        )


def with_holes(batch: memoryview, kept: Sequence[int]) -> memoryview:
    """As compaction leaves it: where it was, with some of its records."""
    return memoryview(keep_records(open_batch(check_batch(batch), batch, BYTES_MAX), kept))


def walked(payload: bytes, start_offset: int = 0) -> list[Message]:
    """As franz-go reads an answer: a batch that by its header ends before what is wanted next is
    not looked into, and nothing before that is taken."""
    found: list[Message] = []
    for one in batches(payload):
        if one.header.last_offset < start_offset:
            continue
        assert one.header.base_offset >= start_offset, "it begins within what came before it"
        messages = decode_batch(one.header, one.view, BYTES_MAX)
        found += [message for message in messages if message.offset >= start_offset]
        start_offset = one.header.next_offset
    return found


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=lambda one: one.name)
@given(
    codec=st.integers(0, 4),
    kept=st.sets(st.integers(0, COUNT - 1), min_size=1).map(sorted),
    cuts=st.lists(st.integers(FIRST, FIRST + COUNT), max_size=6).map(sorted),
)
def test_slices_walked_by_their_headers_have_every_record(
    implementation: Implementation, codec: int, kept: list[int], cuts: list[int]
) -> None:
    """R-DEL-3: clients believe a header, and what one of them passes over is lost."""
    batch = with_holes(built(codec), kept)
    bounds = [FIRST, *cuts, FIRST + COUNT]
    with patch.multiple(
        slicing,
        locate_records=implementation.reading.locate_records,
        renumber_records=implementation.reading.renumber_records,
    ):
        pieces = sliceable(batch)
        slices = [pieces.between(low, high - 1) for low, high in itertools.pairwise(bounds)]
    payload = b"".join(slices)
    everything = decode_messages(batch, "", -1, 0)
    assert [repr(one) for one in walked(payload)] == [repr(one) for one in everything]
    for piece in slices:
        if len(piece) and piece is not batch:
            header, offsets = read_header(piece), [one.offset for one in walked(bytes(piece))]
            assert (header.base_offset, header.last_offset) == (offsets[0], offsets[-1])
            assert [placed[0] for placed in aiokafka_read(bytes(piece))] == offsets


def test_a_slice_far_into_a_large_batch() -> None:
    """Where the numbers of its records become shorter, and so do the records."""
    builder = BatchBuilder(BYTES_MAX, 0)
    for number in range(20_000):
        builder.append(NOW_MS, None, b"%d" % number)
    batch = memoryview(bytearray(builder.build()))
    stamp(batch, FIRST, 3)
    cut = sliceable(batch).between(FIRST + 9_000, FIRST + 18_999)
    found = walked(bytes(cut))
    assert [message.offset for message in found] == list(range(FIRST + 9_000, FIRST + 19_000))
    assert [message.value for message in found] == [b"%d" % n for n in range(9_000, 19_000)]
    assert read_header(cut).record_count == read_header(cut).last_offset_delta + 1 == 10_000
