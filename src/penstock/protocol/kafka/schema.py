"""How a Kafka message is declared: one class per structure, whatever the version.

A structure is a dataclass whose fields say what they are on the wire and in which versions they
are there. Nothing here reads or writes bytes (`protocol.kafka.codec` does, from these
declarations). The invariant: every field has a default, which stands for it in the versions that
do not have it, as Kafka's definitions ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

VERSION_MAX: Final = 2**15 - 1
ZERO_UUID: Final = bytes(16)
NO_RECORDS: Final = memoryview(b"")

_WIRE: Final = "wire"


class Kind(Enum):
    """What a field is on the wire. The value of a number is its struct code."""

    BOOL = "?"
    INT8 = "b"
    INT16 = "h"
    UINT16 = "H"
    INT32 = "i"
    INT64 = "q"
    UUID = "16s"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What is known of a field besides its name: kept in the dataclass field's metadata."""

    kind: Kind
    since: int = 0
    until: int = VERSION_MAX
    nullable_since: int = VERSION_MAX + 1
    tag: int | None = None
    tagged_since: int = 0
    is_array: bool = False
    struct: type[Any] | None = None
    """The class of a structure, or of an array's elements."""

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    def is_nullable_in(self, version: int) -> bool:
        return version >= self.nullable_since

    def is_tagged_in(self, version: int) -> bool:
        return self.tag is not None and version >= self.tagged_since


def wire_of(metadata: Any) -> Wire:
    """The declaration in a dataclass field's metadata."""
    wire = metadata[_WIRE]
    assert isinstance(wire, Wire)
    return wire


def _declare(wire: Wire, default: object) -> Any:
    return field(default=default, metadata={_WIRE: wire})


def _number(kind: Kind) -> Callable[..., Any]:
    def declare(
        *,
        since: int = 0,
        until: int = VERSION_MAX,
        default: int = 0,
        tag: int | None = None,
        tagged_since: int = 0,
    ) -> Any:
        wire = Wire(kind=kind, since=since, until=until, tag=tag, tagged_since=tagged_since)
        return _declare(wire, bool(default) if kind is Kind.BOOL else default)

    return declare


int8: Final = _number(Kind.INT8)
int16: Final = _number(Kind.INT16)
uint16: Final = _number(Kind.UINT16)
int32: Final = _number(Kind.INT32)
int64: Final = _number(Kind.INT64)
boolean: Final = _number(Kind.BOOL)


def uuid(*, since: int = 0, until: int = VERSION_MAX, tag: int | None = None) -> Any:
    """Sixteen bytes; zeros stand for none."""
    return _declare(Wire(kind=Kind.UUID, since=since, until=until, tag=tag), ZERO_UUID)


def string(
    *,
    since: int = 0,
    until: int = VERSION_MAX,
    nullable_since: int = VERSION_MAX + 1,
    default: str | None = "",
    tag: int | None = None,
    tagged_since: int = 0,
) -> Any:
    wire = Wire(
        kind=Kind.STRING,
        since=since,
        until=until,
        nullable_since=nullable_since,
        tag=tag,
        tagged_since=tagged_since,
    )
    return _declare(wire, default)


def binary(*, since: int = 0, nullable_since: int = VERSION_MAX + 1) -> Any:
    """Bytes, copied out of the frame."""
    wire = Wire(kind=Kind.BYTES, since=since, nullable_since=nullable_since)
    return _declare(wire, b"")


def records(*, nullable: bool = True) -> Any:
    """Record batches: a view of the frame when read; bytes or a `Payload` when written."""
    if nullable:
        return _declare(Wire(kind=Kind.RECORDS, nullable_since=0), None)
    return _declare(Wire(kind=Kind.RECORDS), NO_RECORDS)


def struct(
    of: type[Any],
    *,
    since: int = 0,
    nullable_since: int = VERSION_MAX + 1,
    tag: int | None = None,
    tagged_since: int = 0,
) -> Any:
    """Another structure. A tagged one that is not sent is None, as a null one is."""
    wire = Wire(
        kind=Kind.STRUCT,
        since=since,
        nullable_since=nullable_since,
        tag=tag,
        tagged_since=tagged_since,
        struct=of,
    )
    if tag is None and nullable_since > VERSION_MAX:
        return field(default_factory=of, metadata={_WIRE: wire})
    return _declare(wire, None)


def array(
    of: type[Any] | Kind,
    *,
    since: int = 0,
    until: int = VERSION_MAX,
    nullable_since: int = VERSION_MAX + 1,
    default: tuple[()] | None = (),
    tag: int | None = None,
    tagged_since: int = 0,
) -> Any:
    """Several structures, or several of a simple kind."""
    is_simple = isinstance(of, Kind)
    wire = Wire(
        kind=of if isinstance(of, Kind) else Kind.STRUCT,
        since=since,
        until=until,
        nullable_since=nullable_since,
        tag=tag,
        tagged_since=tagged_since,
        is_array=True,
        struct=None if is_simple else of,  # type: ignore[arg-type]
    )
    return _declare(wire, default)
