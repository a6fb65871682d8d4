"""Batches with some of their records taken out, held against other people's readers."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidBatch
from penstock.records import BatchBuilder, decode_batch
from penstock.records.header import (
    BatchHeader,
    check_batch,
    read_header,
    stamp,
    stamp_append_time,
    write_header,
)
from penstock.records.rewrite import (
    OpenedBatch,
    delete_horizon_ms,
    empty_batch,
    keep_records,
    open_batch,
)
from tests.kit.broker.running import peak_bytes
from tests.kit.records.oracles import aiokafka_read, kafka_python_read

NOW_MS = 1_700_000_000_000
BYTES_MAX = 1 << 20
CODECS = range(5)


def built(codec: int = 0, *, append_time_ms: int | None = None) -> memoryview:
    """Ten records, the newest in the middle, stamped with a place and a term."""
    builder = BatchBuilder(1 << 20, codec)
    for number in range(10):
        timestamp_ms = NOW_MS + (100 if number == 5 else number)
        value = None if number % 3 == 0 else b"value " * number
        builder.append(
            timestamp_ms, b"key %d" % number, value, [("h", b"%d" % number), ("n", None)]
        )
    batch = memoryview(builder.build(producer_id=7, producer_epoch=2, base_sequence=40))
    stamp(batch, 1000, 3)
    if append_time_ms is not None:
        stamp_append_time(batch, append_time_ms)
    return batch


def opened(batch: memoryview) -> OpenedBatch:
    return open_batch(check_batch(batch), batch, BYTES_MAX)


def records(batch: bytes | bytearray | memoryview) -> list[tuple[object, ...]]:
    view = memoryview(batch)
    return [
        (message.offset, message.timestamp_ms, message.key, message.value, message.headers)
        for message in decode_batch(check_batch(view), view, BYTES_MAX)
    ]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kept", [[0], [9], [2, 3, 4], [0, 2, 4, 9], list(range(10))])
@pytest.mark.parametrize("horizon_ms", [None, NOW_MS + 86_400_000, 0])
def test_what_stays_is_what_it_was(codec: int, kept: list[int], horizon_ms: int | None) -> None:
    """Offset, time, key, value and headers, for our reader and for others (KIP-534)."""
    batch = built(codec)
    expected = [records(batch)[index] for index in kept]
    result = keep_records(opened(batch), kept, horizon_ms)
    assert records(result) == expected
    assert aiokafka_read(bytes(result)) == expected
    if codec < 2:
        assert kafka_python_read(bytes(result)) == expected


@pytest.mark.parametrize("codec", CODECS)
def test_the_batch_keeps_its_place_its_producer_and_its_codec(codec: int) -> None:
    before = check_batch(built(codec))
    after = check_batch(memoryview(keep_records(opened(built(codec)), [1, 8])))
    assert after.record_count == 2
    assert after.max_timestamp_ms == NOW_MS + 8
    assert after == before._replace(
        length=after.length, crc=after.crc, record_count=2, max_timestamp_ms=NOW_MS + 8
    )


def test_all_records_kept_give_the_same_bytes() -> None:
    assert keep_records(opened(built()), range(10)) == built()


def test_the_horizon_is_the_base_timestamp() -> None:
    batch = built()
    assert delete_horizon_ms(check_batch(batch)) is None
    result = memoryview(keep_records(opened(batch), [0, 3], NOW_MS + 5))
    header = check_batch(result)
    assert delete_horizon_ms(header) == header.base_timestamp_ms == NOW_MS + 5
    # It stays when more is taken out later.
    later = check_batch(memoryview(keep_records(opened(result), [1])))
    assert delete_horizon_ms(later) == NOW_MS + 5
    assert (later.record_count, later.max_timestamp_ms) == (1, NOW_MS + 3)


def test_an_append_time_stays() -> None:
    """The max timestamp stands for all records then, so it is not theirs to change."""
    batch = built(append_time_ms=NOW_MS + 77)
    for horizon_ms in (None, NOW_MS + 1000):
        result = keep_records(opened(batch), [0, 3], horizon_ms)
        assert {record[1] for record in records(result)} == {NOW_MS + 77}
        assert check_batch(memoryview(result)).is_append_time


def test_an_empty_batch_says_where_it_was_and_of_whom() -> None:
    before = check_batch(built(codec=4))
    batch = memoryview(empty_batch(before))
    after = check_batch(batch)
    assert (after.record_count, after.codec, after.length) == (0, 0, 61)
    assert (after.base_offset, after.next_offset, after.term) == (1000, 1010, 3)
    assert (after.producer_id, after.producer_epoch, after.last_sequence) == (7, 2, 49)
    assert after.max_timestamp_ms == before.max_timestamp_ms
    assert records(batch) == aiokafka_read(bytes(batch)) == []


def test_a_header_name_that_is_no_text_is_not_touched() -> None:
    batch = bytearray(built())
    batch[batch.index(b"\x02h") + 1] = 0xFF
    write_header(batch, read_header(batch))
    view = memoryview(batch)
    assert keep_records(opened(view), range(10)) == view


def _garbled(codec: int) -> tuple[BatchHeader, memoryview]:
    batch = bytearray(built(codec))
    batch[70:90] = bytes(20)
    write_header(batch, read_header(batch))
    return check_batch(memoryview(batch)), memoryview(batch)


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_make_no_sense_are_refused(codec: int) -> None:
    header, batch = _garbled(codec)
    with pytest.raises(InvalidBatch):
        open_batch(header, batch, BYTES_MAX)


def test_headers_are_kept_and_not_made() -> None:
    """Millions of them fit in a few kB of a compressed batch."""
    builder = BatchBuilder(1 << 24, 4)
    builder.append(0, b"key", None, [("", b"")] * 200_000)
    batch = memoryview(builder.build())
    header = check_batch(batch)
    assert peak_bytes(lambda: open_batch(header, batch, 1 << 24)) < 5_000_000
    kept = keep_records(open_batch(header, batch, 1 << 24), [0])
    assert bytes(kept) == bytes(batch)


def test_records_that_open_into_too_much_are_refused() -> None:
    builder = BatchBuilder(1 << 20, 4)
    builder.append(0, b"key", bytes(100_000))
    batch = memoryview(builder.build())
    with pytest.raises(InvalidBatch):
        open_batch(check_batch(batch), batch, 10_000)
