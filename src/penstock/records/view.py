"""Batches one by one, with all that is in them: for tools that inspect a log.

Not the path of a consumer, which is `decode_messages`: here control batches are shown as well. The
invariant: a `BatchView` is of a batch whose header and checksum were found right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock.model.limits import DECOMPRESSED_BYTES_MAX
from penstock.records import Headers, decode_batch
from penstock.records.header import BatchHeader, Buffer, check_batch


class Record(NamedTuple):
    """One record of a batch."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class BatchView:
    """A checked batch: its header, and the bytes of the whole of it."""

    header: BatchHeader
    view: memoryview

    def records(self) -> list[Record]:
        """The records, decompressed; InvalidBatch if they make no sense."""
        return [
            Record(
                message.offset, message.timestamp_ms, message.key, message.value, message.headers
            )
            for message in decode_batch(self.header, self.view, DECOMPRESSED_BYTES_MAX)
        ]


def batches(payload: Buffer) -> Iterator[BatchView]:
    """The batches of a payload, end to end; a BatchError where one is not whole or damaged."""
    view = memoryview(payload)
    position = 0
    while position < len(view):
        header = check_batch(view, position)
        yield BatchView(header, view[position : position + header.length])
        position += header.length
