"""Some neighbours out of a batch, read by our decoder and by other people's."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidBatch
from penstock.records import BatchBuilder, decode_messages
from penstock.records.header import check_batch, read_header, stamp
from penstock.records.slicing import SliceableBatch
from tests.unit.records.oracles import aiokafka_read

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
    return SliceableBatch(check_batch(batch), batch, BYTES_MAX)


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
    pieces.offsets[5:] = [offset + 3 for offset in pieces.offsets[5:]]
    assert bytes(pieces.between(105, 107)) == b""


def test_records_that_make_no_sense() -> None:
    batch = built(1)
    header = check_batch(batch)
    with pytest.raises(InvalidBatch):
        SliceableBatch(header, batch, 10)
    with pytest.raises(InvalidBatch):
        SliceableBatch(header._replace(record_count=COUNT + 1), batch, BYTES_MAX)
