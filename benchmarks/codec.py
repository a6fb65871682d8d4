"""What does a record cost to encode and to decode? Ours beside aiokafka's and kafka-python's.

One process, one batch of 1,000 records without key, values of 100 B and 1 kB, uncompressed. The
best of many rounds, the subjects in turn, so that a slow moment of the machine meets all of them.
Decoding includes the checksum and reading offset, timestamp, key, value and headers of each record,
since some codecs put that work off until then.
"""

from __future__ import annotations

import time
import warnings
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


class Subject(NamedTuple):
    """A codec: how it makes a batch of a value repeated, and how it reads all of a batch."""

    name: str
    encode: Callable[[bytes], bytes | bytearray]
    decode: Callable[[bytes], int]


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
    decoders = {name: partial(codec.decode_columns, batch, 0) for name, codec, _ in _ours()}
    for name, seconds in _best(decoders, rounds).items():
        question, rate = f"columns {size}", RECORD_COUNT / seconds
        if name == COMPILED and value_bytes == VALUE_BYTES[0]:
            rows.append(at_least(question, name, rate, "rows/s", 10_000_000))
        else:
            rows.append(Row(question, name, rate, "rows/s"))
    return rows


def _best(work: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The shortest time of each, in seconds."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, function in work.items():
            start = time.perf_counter()
            function()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def _ours() -> list[tuple[str, ModuleType, ModuleType]]:
    ways = [
        (
            "penstock interpreted",
            import_module("penstock.records.codec"),
            import_module("penstock.records.builder"),
        )
    ]
    if records.COMPILED:
        compiled = (
            import_module("penstock.records._codec"),
            import_module("penstock.records._builder"),
        )
        ways.insert(0, (COMPILED, *compiled))
    return ways


def _subjects() -> list[Subject]:
    ours = [Subject(name, *_our_codec(codec, builder)) for name, codec, builder in _ours()]
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
