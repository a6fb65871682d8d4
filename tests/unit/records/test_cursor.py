"""records.cursor: no byte of a batch is trusted, whatever is made of its records."""

from __future__ import annotations

import struct
import sys
import threading
from typing import Any

import pytest
from crc32c import crc32c

from penstock import records
from penstock.model.errors import BatchError, CorruptBatch, InvalidBatch
from penstock.model.limits import RECORD_HEADERS_MAX
from penstock.records import (
    BatchBuilder,
    Codec,
    build_batch,
)
from penstock.records.compression import compress
from penstock.records.header import (
    HEADER_BYTES,
    check_batch,
    read_header,
    write_header,
)
from tests.kit.broker.running import peak_bytes
from tests.kit.records.implementations import IMPLEMENTATIONS, Implementation
from tests.kit.records.oracles import Record
from tests.unit.records.test_codec import raw_batch, raw_record, rows

Decode = Any

SMALL: list[Record] = [(5, b"k", b"v", (("h", b"w"), ("n", None))), (6, None, b"x" * 70, ())]


@pytest.mark.parametrize("codec", Codec)
def test_every_flipped_bit_is_found_or_harmless(
    codec: Codec, implementation: Implementation
) -> None:
    from tests.kit.records.oracles import aiokafka_build

    batch = aiokafka_build(SMALL, codec)
    sound = rows(implementation.reading.decode_messages(batch, "t", 0, 0))
    for bit in range(len(batch) * 8):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            messages = implementation.reading.decode_messages(damaged, "t", 0, 0)
        except BatchError:
            continue
        base_offset = read_header(damaged).base_offset
        assert [(row[0], *row[1:]) for row in rows(messages)] == [
            (base_offset + row[0], *row[1:])  # type: ignore[operator]
            for row in sound
        ], f"bit {bit} was not noticed"


def test_every_cut_is_found(implementation: Implementation) -> None:
    first, second = build_batch([(None, b"a")]), build_batch([(None, b"b")], base_offset=1)
    payload = bytes(first + second)
    for length in range(1, len(payload)):
        if length != len(first):
            with pytest.raises(InvalidBatch):
                implementation.reading.decode_messages(payload[:length], "t", 0, 0)


def test_every_inner_byte_is_hostile(implementation: Implementation) -> None:
    """With a right checksum, any byte of the records may be anything: an InvalidBatch, or records
    whose parts all lie within the batch. Interpreted and compiled agree on which."""
    sound = build_batch([(b"key", b"value"), (None, b"x" * 70)], base_offset=7)
    (interpreted, *_) = IMPLEMENTATIONS
    for position in range(HEADER_BYTES, len(sound)):
        for byte in (0x00, 0x01, 0x02, 0x0D, 0x7F, 0x80, 0x81, 0xFE, 0xFF):
            batch = bytearray(sound)
            batch[position] = byte
            write_header(batch, read_header(batch))
            outcome = outcome_of(implementation.reading.decode_messages, batch)
            assert outcome == outcome_of(interpreted.reading.decode_messages, batch)


def outcome_of(decode: Decode, batch: bytearray) -> object:
    try:
        return rows(decode(batch, "t", 0, 0))
    except InvalidBatch as error:
        return str(error)


# The parts of a record: attributes, timestamp delta, offset delta, key, value, header count.
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "ends within a record"),
        (b"\0\0\0\x01\x01", "ends within a record"),
        (b"\0\0\x02\x01\x01\0", "offset delta 1 follows -1"),
        (b"\0\0\x01\x01\x01\0", "offset delta -1 follows -1"),
        (b"\0\0\0\x03\x01\0", "says it has -2 bytes"),
        (b"\0\0\0\x04\x01\0", "ends within a record"),
        (b"\0\0\0\x10\x01\0", "says it has 8 bytes"),
        (b"\0\0\0\xfe\xff\xff\xff\x0f\x01\0", "says it has 2147483647 bytes"),
        (b"\0\0\0\xff\xff\xff\xff\x0f\x01\0", "says it has -2147483648 bytes"),
        (b"\0\0\0\x01\x01\x01", "has -1 headers"),
        (b"\0\0\0\x01\x01\0\0", "does not end where it says"),
        (b"\0\0\0\x01\x01\x02", "has 1 headers"),
        (b"\0\0\0\x01\x01\x02\x01\x01", "header has no name"),
        (b"\0\0\0\x01\x01\x02\x02a\x01\x00", "headers do not end where it does"),
        (b"\0\0\0\x01\x01\xfe\xff\xff\xff\x0f\x02a\x01", "has 2147483647 headers"),
        (b"\0\0\0\x01\x01\x02\x10a", "says it has 8 bytes"),
    ],
)
def test_a_record_that_makes_no_sense(
    body: bytes, message: str, implementation: Implementation
) -> None:
    batch = raw_batch(raw_record(body), base_offset=33)
    with pytest.raises(InvalidBatch, match=f"at offset 33 .*{message}"):
        implementation.reading.decode_messages(batch, "t", 0, 0)
    with pytest.raises(InvalidBatch, match=f"at offset 33 .*{message}"):
        implementation.column_reading.decode_columns(batch, 0)


def test_a_record_may_not_reach_into_the_next(implementation: Implementation) -> None:
    """Its value has a byte more than it, and that byte is there: the next record's first."""
    first, second = raw_record(b"\0\0\0\x01\x02"), raw_record(b"\0\0\x02\x01\x01\0")
    batch = raw_batch(first + second, record_count=2, last_offset_delta=1)
    with pytest.raises(InvalidBatch, match="a record of 5 bytes does not end where it says"):
        implementation.reading.decode_messages(batch, "t", 0, 0)


@pytest.mark.parametrize(
    ("varint", "value"),
    [
        (b"\x00", 0),
        (b"\x01", -1),
        (b"\x7e", 63),
        (b"\x7f", -64),
        (b"\x80\x01", 64),
        (b"\x80\x00", 0),  # longer than needed, as Kafka's readers accept it
        (b"\xfe\xff\xff\xff\x0f", 2**31 - 1),
        (b"\xff\xff\xff\xff\x0f", -(2**31)),
        (b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", 2**62 - 1),
        (b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 2**62),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", -(2**62)),
    ],
)
def test_varints_of_64_bits(varint: bytes, value: int, implementation: Implementation) -> None:
    """The timestamp delta is the one field of 64 bits."""
    batch = raw_batch(raw_record(b"\0" + varint + b"\0\x01\x01\0"), base_timestamp_ms=0)
    (message,) = implementation.reading.decode_messages(batch, "t", 0, 0)
    assert message.timestamp_ms == value


@pytest.mark.parametrize(
    ("varint", "message"),
    [
        (b"\xff" * 9 + b"\x01", f"timestamp delta is {-(2**63)} ms"),
        (b"\xff" * 9 + b"\x02", "number of 10 bytes is out of range"),
        (b"\x80" * 10 + b"\x00", "more than 10 bytes"),
        (b"\x80" * 11, "more than 10 bytes"),
    ],
)
def test_overlong_varints_of_64_bits(
    varint: bytes, message: str, implementation: Implementation
) -> None:
    batch = raw_batch(raw_record(b"\0" + varint + b"\0\x01\x01\0"))
    with pytest.raises(InvalidBatch, match=message):
        implementation.reading.decode_messages(batch, "t", 0, 0)


@pytest.mark.parametrize(
    ("varint", "message"),
    [
        (b"\x80\x80\x80\x80\x10", "number of 5 bytes is out of range"),
        (b"\x80\x80\x80\x80\x80\x00", "more than 5 bytes"),
    ],
)
def test_overlong_varints_of_32_bits(
    varint: bytes, message: str, implementation: Implementation
) -> None:
    batch = raw_batch(raw_record(b"\0\0" + varint + b"\x01\x01\0"))
    with pytest.raises(InvalidBatch, match=message):
        implementation.reading.decode_messages(batch, "t", 0, 0)


def test_counts_that_are_not_so(implementation: Implementation) -> None:
    record = raw_record(b"\0\0\0\x01\x01\0")
    for count, message in ((0, "bytes follow its last record"), (2**31 - 1, "ends within")):
        batch = raw_batch(record, record_count=count, last_offset_delta=2**31 - 2)
        with pytest.raises(InvalidBatch, match=message):
            implementation.reading.decode_messages(batch, "t", 0, 0)
        with pytest.raises(InvalidBatch, match=message):
            implementation.column_reading.decode_columns(batch, 0)


def test_times_that_cannot_be_added(implementation: Implementation) -> None:
    batch = raw_batch(raw_record(b"\0\0\0\x01\x01\0"), base_timestamp_ms=-(2**63))
    with pytest.raises(InvalidBatch, match="base timestamp"):
        implementation.reading.decode_messages(batch, "t", 0, 0)


def test_a_header_name_that_is_no_text(implementation: Implementation) -> None:
    """One careless producer does not stop every consumer."""
    batch = raw_batch(raw_record(b"\0\0\0\x01\x01\x02\x04\xffa\x01"))
    (message,) = implementation.reading.decode_messages(batch, "t", 0, 0)
    assert message.headers == (("\N{REPLACEMENT CHARACTER}a", None),)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_data_that_does_not_decompress(codec: int, implementation: Implementation) -> None:
    """The checksum is right, so it is no damage that another try would mend."""
    batch = raw_batch(b"neither gzip nor anything else", attributes=codec, base_offset=8)
    with pytest.raises(InvalidBatch, match="at offset 8 cannot be decompressed"):
        implementation.reading.decode_messages(batch, "t", 0, 0)


def test_a_wrong_checksum_is_corrupt(implementation: Implementation) -> None:
    batch = build_batch([(None, b"v")], base_offset=77)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]) ^ 1)
    with pytest.raises(CorruptBatch, match="base offset 77"):
        implementation.reading.decode_messages(batch, "t", 0, 0)


def test_many_bombs_are_one_bomb(
    implementation: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch is within the limit, all of them are not."""
    value = bytes(60_000)
    payload = b"".join(
        bytes(build_batch([(None, value)], codec=4, base_offset=offset)) for offset in range(4)
    )
    assert len(implementation.reading.decode_messages(payload, "t", 0, 0)) == 4
    monkeypatch.setattr(implementation.cursor, "DECOMPRESSED_BYTES_MAX", 200_000)
    with pytest.raises(InvalidBatch, match="at offset 3 cannot be decompressed"):
        implementation.reading.decode_messages(payload, "t", 0, 0)


def test_headers_that_nobody_asked_for_are_not_made(implementation: Implementation) -> None:
    """Millions of them fit in a few kB of a compressed batch."""
    builder = BatchBuilder(1 << 20, Codec.ZSTD)
    for _ in range(20):
        builder.append(0, b"key", None, [("", b"")] * 1_000)
    builder.append(0, None, b"value")
    batch = memoryview(builder.build())
    header = check_batch(batch)
    reading = implementation.reading
    assert peak_bytes(lambda: reading.decode_batch(header, batch, 1 << 20)) > 1_000_000
    assert peak_bytes(lambda: reading.decode_batch(header, batch, 1 << 20, False)) < 400_000
    assert peak_bytes(lambda: implementation.column_reading.decode_columns(batch, 0)) < 400_000
    without = rows(reading.decode_batch(header, batch, 1 << 20, False))
    assert [row[4] for row in without] == [()] * 21
    assert reading.count_keys(header, batch, 1 << 20) == 20
    assert reading.count_headers(header, batch, 1 << 20) == 20_000
    assert peak_bytes(lambda: reading.locate_records(header, batch, 1 << 20)) < 400_000
    others = [b"other"]
    assert peak_bytes(lambda: list(reading.walk_records(header, batch, 1 << 20, others))) < 400_000


def built_of(*records: tuple[bytes | None, bytes | None, list[Any]]) -> memoryview:
    builder = BatchBuilder(1 << 20)
    for record in records:
        builder.append(0, *record)
    return memoryview(builder.build())


def test_a_record_with_more_headers_than_anybody_writes_is_not_looked_into(
    implementation: Implementation,
) -> None:
    """Whoever reads it has it all the same: it is a broker that does not."""
    reading = implementation.reading
    for count in (RECORD_HEADERS_MAX, RECORD_HEADERS_MAX + 1):
        batch = built_of((b"key", None, [("", b"")] * count))
        header = check_batch(batch)
        assert len(reading.decode_batch(header, batch, 1 << 20)[0].headers) == count
        for walk in (
            reading.count_keys,
            reading.count_headers,
            reading.locate_records,
            lambda *what: list(reading.walk_records(*what, ())),
            lambda *what: implementation.selecting.Selection(*what, 0, {}, False, bool).look(1),
        ):
            if count <= RECORD_HEADERS_MAX:
                walk(header, batch, 1 << 20)
            else:
                with pytest.raises(InvalidBatch, match="1000 are the most"):
                    walk(header, batch, 1 << 20)


def test_names_that_are_looked_for(implementation: Implementation) -> None:
    headers = [("a", b"1"), ("bb", b"2"), ("a", None), ("c" * 64, b"3"), ("d", b"4"), ("", b"5")]
    batch = built_of((b"key", b"value", headers), (None, b"value", []))
    walked = implementation.reading.walk_records(check_batch(batch), batch, 1 << 20, {b"a", b""})
    found = [("a", b"1"), ("a", None), ("", b"5")]
    assert list(walked) == [(0, b"key", found), (1, None, [])]


@pytest.mark.parametrize("walk", ["count_keys", "count_headers", "locate_records"])
def test_other_threads_run_while_records_are_walked(walk: str) -> None:
    """Those of a hostile batch take a second: threads would be of no use."""
    builder = BatchBuilder(1 << 20, Codec.NONE)
    for _ in range(300):
        builder.append(0, b"key", None, [("", b"")] * 1_000)
    batch = memoryview(builder.build())
    walked = getattr(records, walk)
    ran = threading.Event()
    gate = threading.Lock()

    def run() -> None:
        with gate:
            ran.set()

    interval_s = sys.getswitchinterval()
    gate.acquire()
    other = threading.Thread(target=run)
    other.start()
    try:
        # Who runs is asked to stop no more: another thread runs if it lets go by itself.
        sys.setswitchinterval(3600 if records.COMPILED else interval_s)
        gate.release()
        while not ran.is_set():
            walked(check_batch(batch), batch, 1 << 20)
    finally:
        sys.setswitchinterval(interval_s)
        other.join()


def test_headers_are_checked_though_nobody_asked_for_them(implementation: Implementation) -> None:
    batch = memoryview(raw_batch(raw_record(b"\0\0\0\x01\x01\x02\x04a\x01")))
    for decode in (implementation.reading.decode_batch, implementation.reading.count_keys):
        with pytest.raises(InvalidBatch):
            decode(check_batch(batch), batch, 1 << 20)
    with pytest.raises(InvalidBatch):
        implementation.reading.decode_batch(check_batch(batch), batch, 1 << 20, False)


def test_raw_snappy_of_librdkafka(implementation: Implementation) -> None:
    import cramjam

    sound = build_batch([(b"k", b"v" * 100)])
    records = bytes(sound[HEADER_BYTES:])
    for compressed in (cramjam.snappy.compress_raw(records), compress(Codec.SNAPPY, records)):
        batch = raw_batch(bytes(compressed), attributes=Codec.SNAPPY)
        (message,) = implementation.reading.decode_messages(batch, "t", 0, 0)
        assert (message.key, message.value) == (b"k", b"v" * 100)
