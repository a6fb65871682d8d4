"""Other people's codecs, to hold ours against: aiokafka's and kafka-python's, behind one shape.

Not a test. A record is (timestamp_ms, key, value, headers); what is read back has its offset in
front.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka.record import default_records as aiokafka_records

with warnings.catch_warnings():
    # It loads its message schemas by a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import default_records as kafka_python_records

Headers = tuple[tuple[str, bytes | None], ...]
Record = tuple[int, bytes | None, bytes | None, Headers]
Placed = tuple[int, int, bytes | None, bytes | None, Headers]

NO_PRODUCER: dict[str, int] = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}


def _build(builder_class: Any, records: Sequence[Record], codec: int, **producer: int) -> bytes:
    builder = builder_class(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        batch_size=1 << 30,
        **(NO_PRODUCER | producer),
    )
    for index, (timestamp_ms, key, value, headers) in enumerate(records):
        assert builder.append(index, timestamp_ms, key, value, list(headers)) is not None
    return bytes(builder.build())


def _read(batch_class: Any, batch: bytes) -> list[Placed]:
    opened = batch_class(bytearray(batch))
    assert opened.validate_crc()
    return [
        (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in opened
    ]


def aiokafka_build(records: Sequence[Record], codec: int = 0, **producer: int) -> bytes:
    return _build(aiokafka_records.DefaultRecordBatchBuilder, records, codec, **producer)


def aiokafka_read(batch: bytes) -> list[Placed]:
    return _read(aiokafka_records.DefaultRecordBatch, batch)


def kafka_python_build(records: Sequence[Record], codec: int = 0, **producer: int) -> bytes:
    return _build(kafka_python_records.DefaultRecordBatchBuilder, records, codec, **producer)


def kafka_python_read(batch: bytes) -> list[Placed]:
    return _read(kafka_python_records.DefaultRecordBatch, batch)


Build = Callable[..., bytes]
Read = Callable[[bytes], list[Placed]]

# kafka-python takes snappy, lz4 and zstd from packages of their own; aiokafka's come with ours.
ORACLES: list[tuple[str, Build, Read, int]] = [
    *(("aiokafka", aiokafka_build, aiokafka_read, codec) for codec in range(5)),
    *(("kafka-python", kafka_python_build, kafka_python_read, codec) for codec in (0, 1)),
]
ORACLE_IDS = [f"{name}-codec{codec}" for name, _, _, codec in ORACLES]
