"""Kafka's record batches, format 2: built, checked, decoded. Pure functions on bytes.

Import the codec's names from here: they are the compiled ones where these were built, else the
same source interpreted. `records.header`, `records.compression` and `records.view` are imported
by their own names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.records.columns import BinaryColumn, Columns, HeaderColumns, Headers
from penstock.records.compression import Codec

if TYPE_CHECKING:
    from penstock.records import builder as _writing
    from penstock.records import codec as _reading
else:
    try:
        from penstock.records import _builder as _writing
        from penstock.records import _codec as _reading
    except ImportError:
        from penstock.records import builder as _writing
        from penstock.records import codec as _reading

COMPILED: Final = _reading.__name__.endswith("._codec")

BatchBuilder = _writing.BatchBuilder
build_batch = _writing.build_batch
control_batch = _writing.control_batch
murmur2 = _writing.murmur2

Message = _reading.Message
count_keys = _reading.count_keys
decode_batch = _reading.decode_batch
decode_columns = _reading.decode_columns
decode_messages = _reading.decode_messages

__all__ = [
    "COMPILED",
    "BatchBuilder",
    "BinaryColumn",
    "Codec",
    "Columns",
    "HeaderColumns",
    "Headers",
    "Message",
    "build_batch",
    "control_batch",
    "count_keys",
    "decode_batch",
    "decode_columns",
    "decode_messages",
    "murmur2",
]
