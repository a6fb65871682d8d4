"""Types of the compiled `penstock.records.codec`, for those who cannot follow its decorators.

Cython's `cclass` hides the class from pyright and Pylance. Signatures and docstrings are those of
`codec.py`, which says what they mean and which mypy checks: `tests/tidy/test_stubs.py` compares.
"""

from array import array
from collections.abc import Collection, Iterator
from typing import Any, Literal, final

from penstock.records.columns import Headers
from penstock.records.header import BatchHeader, Buffer

class Lifetimes:
    """Which messages have outlived their time, and whether others may soon."""

    expired_count: int
    is_any_limited: bool
    def __init__(self, now_ms: int) -> None: ...
    def is_over(self, headers: Headers) -> bool: ...

def expiry_ms(headers: Headers) -> int | None:
    """From when on a message with these headers is not delivered; None: there is no such time."""

@final
class Message:
    """One message as a consumer gets it."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int:
        """The message's place in its partition."""

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970; `timestamp_type` says whose clock."""

    @property
    def timestamp_type(self) -> Literal["create", "append"]:
        """`create`: the producer's time; `append`: the broker's."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers:
        """Pairs of name and value, in the producer's order; names may repeat."""

    @property
    def source(self) -> Any:
        """Whoever delivered the message and takes its acknowledgement; None if there is none."""

    @property
    def tag(self) -> str | None:
        """Of what sort the message is, if its producer said so."""

    @property
    def attempt(self) -> int:
        """How often it was handed out, this time included: 1 unless it failed or was given back."""

    def ack(self) -> Any:
        """Say that this message has been dealt with."""

    def release(self, delay_s: float = 0.0) -> Any:
        """Give it back, for any member of the group: now, or after some time."""

    def fail(self, reason: str = "") -> Any:
        """It could not be dealt with: try again later, or bury it after the last attempt."""

    def reject(self, reason: str = "") -> Any:
        """It never can be dealt with: to the dead letters, with the reason."""

    def extend(self) -> Any:
        """Keep it for a whole lease more."""

    def reply(self, value: bytes | None, headers: Headers = ()) -> Any:
        """Answer the request that this message is."""

def decode_messages(
    payload: Buffer, topic: str, partition: int, start_offset: int, source: Any = None
) -> list[Message]:
    """Every message from the offset on, out of whole batches end to end; control batches are
    skipped. CorruptBatch if a checksum is wrong, InvalidBatch if what it covers makes no sense."""

def decode_unexpired(
    payload: Buffer, topic: str, partition: int, start_offset: int, source: Any, now_ms: int
) -> tuple[list[Message], Lifetimes]:
    """Like `decode_messages`, without those whose time to live is over. Only messages with a header
    as long as that one's name are looked at, so that others cost nothing."""

def decode_batch(
    header: BatchHeader, batch: memoryview, bytes_max: int, include_headers: bool = True
) -> list[Message]:
    """The records of one checked batch, control or not, as messages of no topic: to inspect it."""

def count_keys(header: BatchHeader, batch: memoryview, bytes_max: int) -> int:
    """How many records of one checked batch have a key; all of them are found sound on the way, and
    none with more than RECORD_HEADERS_MAX headers. Other threads run meanwhile."""

def count_headers(header: BatchHeader, batch: memoryview, bytes_max: int) -> int:
    """How many headers the records of one checked batch have together; else as `count_keys`."""

def locate_records(
    header: BatchHeader, batch: memoryview, bytes_max: int
) -> tuple[array[int], array[int]]:
    """The offset of each record of one checked batch, and where in the decompressed records it
    ends: the next begins there. Else as `count_keys`."""

def walk_records(
    header: BatchHeader, batch: memoryview, bytes_max: int, names: Collection[bytes]
) -> Iterator[tuple[int, bytes | None, list[tuple[str, bytes | None]]]]:
    """Offset, key and the headers of these names of each record of one checked batch; nothing else
    is taken out. None may have more than RECORD_HEADERS_MAX headers."""

def renumber_records(header: BatchHeader, records: Buffer, shift: int) -> bytearray:
    """Records that were found sound, with offset deltas that are less by `shift`, behind room for
    their header; all else of them is as it was. header: the one that they get."""
