"""Kafka's record batches, format 2: built, checked, decoded. Pure functions on bytes.

Import the codec's names from here: they are the compiled ones where these were built, else the
same source interpreted. `records.header`, `records.compression` and `records.view` are imported
by their own names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.records.columns import (
    BatchRows,
    BinaryColumn,
    Columns,
    EncodedBatch,
    HeaderColumns,
    Headers,
    OutgoingColumns,
)
from penstock.records.compression import Codec

if TYPE_CHECKING:
    from penstock.records import _codec
    from penstock.records import builder as _builder
    from penstock.records import column_decoder as _column_decoder
    from penstock.records import column_encoder as _column_encoder
    from penstock.records import selection as _selection
else:
    try:
        from penstock.records import (
            _builder,
            _codec,
            _column_decoder,
            _column_encoder,
            _selection,
        )
    except ImportError:
        from penstock.records import builder as _builder
        from penstock.records import codec as _codec
        from penstock.records import column_decoder as _column_decoder
        from penstock.records import column_encoder as _column_encoder
        from penstock.records import selection as _selection

COMPILED: Final = _codec.__name__.endswith("._codec")

BatchBuilder = _builder.BatchBuilder
build_batch = _builder.build_batch
control_batch = _builder.control_batch
murmur2 = _builder.murmur2

Message = _codec.Message
count_headers = _codec.count_headers
count_keys = _codec.count_keys
decode_batch = _codec.decode_batch
decode_messages = _codec.decode_messages
decode_unexpired = _codec.decode_unexpired
expiry_ms = _codec.expiry_ms
locate_records = _codec.locate_records
renumber_records = _codec.renumber_records
walk_records = _codec.walk_records

decode_columns = _column_decoder.decode_columns
decode_pieces = _column_decoder.decode_pieces

encode_columns = _column_encoder.encode_columns
hash_partitions = _column_encoder.hash_partitions

Selection = _selection.Selection

__all__ = [
    "COMPILED",
    "BatchBuilder",
    "BatchRows",
    "BinaryColumn",
    "Codec",
    "Columns",
    "EncodedBatch",
    "HeaderColumns",
    "Headers",
    "Message",
    "OutgoingColumns",
    "Selection",
    "build_batch",
    "control_batch",
    "count_headers",
    "count_keys",
    "decode_batch",
    "decode_columns",
    "decode_messages",
    "decode_pieces",
    "decode_unexpired",
    "encode_columns",
    "expiry_ms",
    "hash_partitions",
    "locate_records",
    "murmur2",
    "renumber_records",
    "walk_records",
]
