"""What does a record cost to encode and to decode? Ours beside aiokafka's and kafka-python's.

And how many rows a second go from batches to columns, and from columns to batches?

One process, one batch of 1,000 records without key, values of 100 B and 1 kB, uncompressed. The
best of many rounds, the subjects in turn, so that a slow moment of the machine meets all of them.
Decoding includes the checksum and reading offset, timestamp, key, value and headers of each record,
since some codecs put that work off until then. Columns have rows of the same sizes and a key of
8 bytes, with and without a header; encoding them includes finding the partition of each key.
"""

from __future__ import annotations

import time
import warnings
from array import array
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder

from benchmarks.budgets import at_least, ratios
from benchmarks.report import Row, show
from penstock import records

with warnings.catch_warnings():
    # It loads its message schemas by a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

RECORD_COUNT = 1000
VALUE_BYTES = (100, 1000)
BATCH_BYTES_MAX = 1 << 24
TIMESTAMP_MS = 1_700_000_000_000
COMPILED = "penstock compiled"
AIOKAFKA = "aiokafka (Cython)"
DECODED_ROWS_PER_S = 10_000_000
ENCODED_ROWS_PER_S = 4_000_000


class Subject(NamedTuple):
    """A codec: how it makes a batch of a value repeated, and how it reads all of a batch."""

    name: str
    encode: Callable[[bytes], bytes | bytearray]
    decode: Callable[[bytes], int]


class Way(NamedTuple):
    """One way to run our codec."""

    name: str
    codec: ModuleType
    builder: ModuleType
    column_decoder: ModuleType
    column_encoder: ModuleType


def run(quick: bool = False) -> list[Row]:
    """The figures; `quick` takes fewer rounds."""
    rounds = 5 if quick else 40
    return [row for value_bytes in VALUE_BYTES for row in _rows_of(value_bytes, rounds)]


def _rows_of(value_bytes: int, rounds: int) -> list[Row]:
    subjects = _subjects()
    value = bytes(value_bytes)
    batch = bytes(subjects[0].encode(value))
    assert {subject.decode(batch) for subject in subjects} == {RECORD_COUNT}
    size = f"{value_bytes} B" if value_bytes < 1000 else f"{value_bytes // 1000} kB"
    rows = []
    for question, work in (
        (f"encode {size}", {s.name: partial(s.encode, value) for s in subjects}),
        (f"decode {size}", {s.name: partial(s.decode, batch) for s in subjects}),
    ):
        costs = {name: s / RECORD_COUNT * 1e6 for name, s in _best(work, rounds).items()}
        rows += [Row(question, name, cost, "µs/record") for name, cost in costs.items()]
        rows += ratios(question, costs, {(COMPILED, AIOKAFKA): ("≤", 1.0)})
    for has_headers in (False, True):
        rows += _column_rows(value, size, has_headers, rounds)
    return rows


def _column_rows(value: bytes, size: str, has_headers: bool, rounds: int) -> list[Row]:
    columns = _outgoing(value, has_headers)
    ways = _ours()
    batch = bytes(_encode_columns(ways[0], columns)[0].data)
    suffix = " with headers" if has_headers else ""
    questions: list[tuple[str, float, dict[str, Callable[[], object]]]] = [
        (
            f"decode columns {size}{suffix}",
            DECODED_ROWS_PER_S,
            {
                way.name: partial(way.column_decoder.decode_columns, batch, 0, has_headers)
                for way in ways
            },
        ),
        (
            f"encode columns {size}{suffix}",
            ENCODED_ROWS_PER_S,
            {way.name: partial(_encode_columns, way, columns) for way in ways},
        ),
    ]
    rows = []
    for question, goal, work in questions:
        for name, seconds in _best(work, rounds).items():
            rate = RECORD_COUNT / seconds
            if name == COMPILED and len(value) == VALUE_BYTES[0] and not has_headers:
                rows.append(at_least(question, name, rate, "rows/s", goal))
            else:
                rows.append(Row(question, name, rate, "rows/s"))
    return rows


def _outgoing(value: bytes, has_headers: bool) -> records.OutgoingColumns:
    def column(content: bytes) -> records.BinaryColumn:
        offsets = array("i", range(0, len(content) * (RECORD_COUNT + 1), len(content)))
        data = content * RECORD_COUNT
        return records.BinaryColumn(offsets=offsets, data=data, validity=None)

    headers = records.HeaderColumns(
        offsets=array("i", range(RECORD_COUNT + 1)), keys=column(b"name"), values=column(b"content")
    )
    return records.OutgoingColumns(
        row_count=RECORD_COUNT,
        keys=column(b"some key"),
        values=column(value),
        headers=headers if has_headers else None,
    )


def _encode_columns(way: Way, columns: records.OutgoingColumns) -> list[records.EncodedBatch]:
    encoder = way.column_encoder
    partitions = encoder.hash_partitions(columns.keys, columns.row_count, 4, 0)
    batches: list[records.EncodedBatch] = encoder.encode_columns(
        columns, partitions, codec=0, batch_bytes=BATCH_BYTES_MAX, now_ms=TIMESTAMP_MS
    )
    return batches


def _best(work: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The shortest time of each, in seconds."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, function in work.items():
            start = time.perf_counter()
            function()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def _ours() -> list[Way]:
    ways = [_way("penstock interpreted", "")]
    if records.COMPILED:
        ways.insert(0, _way(COMPILED, "_"))
    return ways


def _way(name: str, prefix: str) -> Way:
    modules = ("codec", "builder", "column_decoder", "column_encoder")
    return Way(name, *(import_module(f"penstock.records.{prefix}{module}") for module in modules))


def _subjects() -> list[Subject]:
    ours = [Subject(way.name, *_our_codec(way.codec, way.builder)) for way in _ours()]
    return [
        *ours,
        Subject(AIOKAFKA, *_their_codec(AiokafkaBuilder, AiokafkaBatch)),
        Subject("kafka-python", *_their_codec(KafkaPythonBuilder, KafkaPythonBatch)),
    ]


def _our_codec(
    codec: ModuleType, builder: ModuleType
) -> tuple[Callable[[bytes], bytearray], Callable[[bytes], int]]:
    def encode(value: bytes) -> bytearray:
        batch = builder.BatchBuilder(BATCH_BYTES_MAX)
        append = batch.append
        for _ in range(RECORD_COUNT):
            append(TIMESTAMP_MS, None, value)
        built: bytearray = batch.build()
        return built

    def decode(batch: bytes) -> int:
        count = 0
        for message in codec.decode_messages(batch, "topic", 0, 0):
            _ = message.offset, message.timestamp_ms, message.key, message.value, message.headers
            count += 1
        return count

    return encode, decode


def _their_codec(
    builder_class: Any, batch_class: Any
) -> tuple[Callable[[bytes], bytes], Callable[[bytes], int]]:
    def encode(value: bytes) -> bytes:
        builder = builder_class(
            magic=2,
            compression_type=0,
            is_transactional=False,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=BATCH_BYTES_MAX,
        )
        append = builder.append
        for index in range(RECORD_COUNT):
            append(index, TIMESTAMP_MS, None, value, [])
        built: bytes = builder.build()
        return built

    def decode(batch: bytes) -> int:
        opened = batch_class(batch)
        assert opened.validate_crc()
        count = 0
        for record in opened:
            _ = record.offset, record.timestamp, record.key, record.value, record.headers
            count += 1
        return count

    return encode, decode


if __name__ == "__main__":
    show(run())
