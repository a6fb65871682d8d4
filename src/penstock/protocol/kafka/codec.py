"""Reads and writes the structures that `schema` declares, for one version at a time.

A reader and a writer are made once for each structure and version, out of small functions; runs of
numbers become one `struct` call. The invariant: whatever the bytes are, reading them ends with a
message or with MalformedFrame, and makes no more than ELEMENTS_MAX objects.

Readers are plain functions `(view, position, budget) -> (value, position)`; the budget is how many
array elements the message may still have. They run for every request: no classes here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cache
from operator import attrgetter
from struct import Struct, error
from typing import Any, Final, Protocol, TypeVar

from penstock.model.errors import MalformedFrame
from penstock.protocol.kafka.lengths import (
    read_compact_length,
    read_length16,
    read_length32,
    read_unsigned,
    write_compact_length,
    write_length16,
    write_length32,
    write_unsigned,
)
from penstock.protocol.kafka.schema import Kind, Wire, wire_of

# Elements of all arrays of one message: no client has so many partitions, members or settings.
ELEMENTS_MAX: Final = 200_000
# Kafka's own limit, whatever the length in front could say.
STRING_BYTES_MAX: Final = 2**15 - 1
# Tagged fields that one structure may have: known ones, and those of clients newer than this.
TAGS_MAX: Final = 1_000

Budget = list[int]
Read = Callable[[memoryview, int, Budget], tuple[Any, int]]
Write = Callable[["Outgoing", Any], None]
Message = TypeVar("Message")

# As many as there are structures and versions of them.
_READERS: Final[dict[tuple[type[Any], int, bool], Read]] = {}
_WRITERS: Final[dict[tuple[type[Any], int, bool], Write]] = {}


class Payload(Protocol):
    """Record batches that are not in memory: a slice of a file."""

    @property
    def position(self) -> int: ...
    @property
    def length(self) -> int: ...
    def fileno(self) -> int: ...
    def read(self) -> bytes: ...


class Outgoing:
    """A message being written: bytes, with payloads between them."""

    __slots__ = ("buffer", "parts")

    def __init__(self) -> None:
        self.buffer = bytearray()
        # What came before the buffer: bytes and payloads by turns.
        self.parts: list[bytearray | Payload] = []

    def add_payload(self, payload: Payload) -> None:
        self.parts += (self.buffer, payload)
        self.buffer = bytearray()


def read_message(
    kind: type[Message],
    version: int,
    is_flexible: bool,
    view: memoryview,
    position: int = 0,
    *,
    may_have_more: bool = False,
) -> Message:
    """The message that fills the view from the position to its end, or (where there may be more)
    at least begins there."""
    try:
        message, end = reader_of(kind, version, is_flexible)(view, position, [ELEMENTS_MAX])
    except (error, IndexError, UnicodeDecodeError) as wrong:
        raise MalformedFrame(f"{kind.__name__} v{version} ends early or is no text.") from wrong
    if end != len(view) and not may_have_more:
        raise MalformedFrame(
            f"{kind.__name__} v{version} has {len(view) - end} bytes more than it says."
        )
    assert isinstance(message, kind)
    return message


def write_message(message: object, version: int, is_flexible: bool, out: Outgoing) -> None:
    writer_of(type(message), version, is_flexible)(out, message)


def read_tag_section(view: memoryview, position: int) -> int:
    """Skip the tagged fields of a header, none of which we know; where they end."""
    try:
        return _read_tagged({}, [], view, position, [0])
    except IndexError as wrong:
        raise MalformedFrame("A header ends in its tagged fields.") from wrong


# --- structures --------------------------------------------------------------------------------


def reader_of(kind: type[Any], version: int, is_flexible: bool) -> Read:
    """The function that reads the structure in this version."""
    read = _READERS.get((kind, version, is_flexible))
    if read is None:
        read = _READERS[kind, version, is_flexible] = _make_reader(kind, version, is_flexible)
    return read


def writer_of(kind: type[Any], version: int, is_flexible: bool) -> Write:
    """The function that writes the structure in this version."""
    write = _WRITERS.get((kind, version, is_flexible))
    if write is None:
        write = _WRITERS[kind, version, is_flexible] = _make_writer(kind, version, is_flexible)
    return write


def _make_reader(kind: type[Any], version: int, is_flexible: bool) -> Read:  # noqa: C901 - one walk
    defaults: list[Any] = []
    steps: list[tuple[int, Read | Struct, int]] = []  # first value's place, how, how many
    tagged: dict[int, tuple[int, Read]] = {}
    codes = ""
    place = 0

    def end_run() -> None:
        nonlocal codes
        if codes:
            run = Struct(">" + codes)
            count = len(run.unpack(bytes(run.size)))
            steps.append((place - count, run, count))
            codes = ""

    for declared in fields(kind):
        wire = wire_of(declared.metadata)
        # A structure that must be there has a factory for one, and is in every version.
        defaults.append(None if declared.default is MISSING else declared.default)
        if wire.is_in(version):
            if is_flexible and wire.is_tagged_in(version):
                assert wire.tag is not None
                tagged[wire.tag] = (place, _value_reader(wire, version, is_flexible))
                end_run()
            elif _is_fixed(wire):
                codes += wire.kind.value
            else:
                end_run()
                steps.append((place, _value_reader(wire, version, is_flexible), 1))
        else:
            end_run()
        place += 1
    end_run()

    def read(view: memoryview, position: int, budget: Budget) -> tuple[Any, int]:
        values = defaults[:]
        for first, how, count in steps:
            if type(how) is Struct:
                values[first : first + count] = how.unpack_from(view, position)
                position += how.size
            else:
                values[first], position = how(view, position, budget)  # type: ignore[operator]
        if is_flexible:
            # Nearly every structure ends with a zero here: no tagged fields.
            if view[position]:
                position = _read_tagged(tagged, values, view, position, budget)
            else:
                position += 1
        return kind(*values), position

    return read


def _make_writer(kind: type[Any], version: int, is_flexible: bool) -> Write:  # noqa: C901 - one walk
    steps: list[tuple[Callable[[Any], Any], Write]] = []
    tagged: list[tuple[int, str, tuple[Any, ...], Write]] = []  # tag, name, values not sent, how
    run: list[tuple[str, Kind]] = []  # numbers next to each other

    def end_run() -> None:
        if run:
            names, kinds = zip(*run, strict=True)
            steps.append((attrgetter(*names), _run_writer(*kinds)))
            run.clear()

    for declared in fields(kind):
        wire = wire_of(declared.metadata)
        if not wire.is_in(version):
            continue
        if is_flexible and wire.is_tagged_in(version):
            assert wire.tag is not None
            write_value = _value_writer(wire, version, is_flexible)
            tagged.append((wire.tag, declared.name, _absent(wire, declared.default), write_value))
        elif _is_fixed(wire):
            run.append((declared.name, wire.kind))
        else:
            end_run()
            write_value = _value_writer(wire, version, is_flexible)
            steps.append((attrgetter(declared.name), write_value))
    end_run()
    tagged.sort(key=lambda entry: entry[0])

    def write(out: Outgoing, message: Any) -> None:
        for get, write_value in steps:
            write_value(out, get(message))
        if tagged:
            _write_tagged(tagged, out, message)
        elif is_flexible:
            out.buffer.append(0)

    return write


def _read_tagged(
    tagged: dict[int, tuple[int, Read]],
    values: list[Any],
    view: memoryview,
    position: int,
    budget: Budget,
) -> int:
    """Tags rise; those that nobody here knows are skipped (KIP-482)."""
    count, position = read_unsigned(view, position)
    if count > TAGS_MAX:
        raise MalformedFrame(f"A structure says that it has {count} tagged fields.")
    for _ in range(count):
        tag, position = read_unsigned(view, position)
        size, position = read_unsigned(view, position)
        end = position + size
        if end > len(view):
            raise MalformedFrame("A tagged field is longer than its frame.")
        known = tagged.get(tag)
        if known is not None:
            place, read_value = known
            values[place], read_end = read_value(view, position, budget)
            if read_end != end:
                raise MalformedFrame(f"Tagged field {tag} does not have the length it says.")
        position = end
    return position


def _write_tagged(
    tagged: list[tuple[int, str, tuple[Any, ...], Write]], out: Outgoing, message: object
) -> None:
    present = [entry for entry in tagged if getattr(message, entry[1]) not in entry[2]]
    write_unsigned(out.buffer, len(present))
    for tag, name, _, write_value in present:
        inner = Outgoing()
        write_value(inner, getattr(message, name))
        write_unsigned(out.buffer, tag)
        write_unsigned(out.buffer, len(inner.buffer))
        out.buffer += inner.buffer


def _absent(wire: Wire, default: Any) -> tuple[Any, ...]:
    """The values of a tagged field that are not sent, since its absence says the same."""
    if wire.is_array:
        return (), []
    if wire.struct is not None:
        return None, wire.struct()
    return (default,)


# --- values ------------------------------------------------------------------------------------


def _is_fixed(wire: Wire) -> bool:
    return not wire.is_array and wire.kind not in (
        Kind.STRING,
        Kind.BYTES,
        Kind.RECORDS,
        Kind.STRUCT,
    )


def _value_reader(wire: Wire, version: int, is_flexible: bool) -> Read:
    nullable = wire.is_nullable_in(version)
    if wire.is_array:
        return _array_reader(_element_reader(wire, version, is_flexible), nullable, is_flexible)
    if wire.kind is Kind.STRUCT:
        assert wire.struct is not None
        read = reader_of(wire.struct, version, is_flexible)
        return _nullable_struct_reader(read) if nullable else read
    if _is_fixed(wire):
        return _number_reader(wire.kind)
    return _sized_reader(wire.kind, nullable, is_flexible)


def _value_writer(wire: Wire, version: int, is_flexible: bool) -> Write:
    nullable = wire.is_nullable_in(version)
    if wire.is_array:
        return _array_writer(_element_writer(wire, version, is_flexible), nullable, is_flexible)
    if wire.kind is Kind.STRUCT:
        assert wire.struct is not None
        write = writer_of(wire.struct, version, is_flexible)
        return _nullable_struct_writer(write) if nullable else write
    if _is_fixed(wire):
        return _run_writer(wire.kind)
    return _sized_writer(wire.kind, nullable, is_flexible)


def _element_reader(wire: Wire, version: int, is_flexible: bool) -> Read:
    if wire.struct is not None:
        return reader_of(wire.struct, version, is_flexible)
    if wire.kind in (Kind.STRING, Kind.BYTES):
        return _sized_reader(wire.kind, False, is_flexible)
    return _number_reader(wire.kind)


def _element_writer(wire: Wire, version: int, is_flexible: bool) -> Write:
    if wire.struct is not None:
        return writer_of(wire.struct, version, is_flexible)
    if wire.kind in (Kind.STRING, Kind.BYTES):
        return _sized_writer(wire.kind, False, is_flexible)
    return _run_writer(wire.kind)


@cache
def _number_reader(kind: Kind) -> Read:
    number = Struct(">" + kind.value)

    def read(view: memoryview, position: int, budget: Budget) -> tuple[Any, int]:
        del budget
        return number.unpack_from(view, position)[0], position + number.size

    return read


@cache
def _run_writer(*kinds: Kind) -> Write:
    """One number, or a tuple of several."""
    pack = Struct(">" + "".join(kind.value for kind in kinds)).pack

    def write_one(out: Outgoing, value: Any) -> None:
        out.buffer += pack(value)

    def write_run(out: Outgoing, values: Any) -> None:
        out.buffer += pack(*values)

    return write_one if len(kinds) == 1 else write_run


def _nullable_struct_reader(read_struct: Read) -> Read:
    """A byte says whether it is there: -1 for none."""

    def read(view: memoryview, position: int, budget: Budget) -> tuple[Any, int]:
        if view[position] >= 0x80:
            return None, position + 1
        return read_struct(view, position + 1, budget)

    return read


def _nullable_struct_writer(write_struct: Write) -> Write:
    def write(out: Outgoing, value: Any) -> None:
        if value is None:
            out.buffer += b"\xff"
        else:
            out.buffer += b"\x01"
            write_struct(out, value)

    return write


def _array_reader(read_element: Read, nullable: bool, is_flexible: bool) -> Read:
    read_length = read_compact_length if is_flexible else read_length32

    def read(view: memoryview, position: int, budget: Budget) -> tuple[Any, int]:
        count, position = read_length(view, position)
        if count < 0:
            if not nullable:
                raise MalformedFrame("An array that must be there is null.")
            return None, position
        budget[0] -= count
        # An element has a byte at least, so a count beyond the frame is known at once.
        if budget[0] < 0 or count > len(view) - position:
            raise MalformedFrame(f"An array says that it has {count} elements.")
        elements = []
        for _ in range(count):
            element, position = read_element(view, position, budget)
            elements.append(element)
        return elements, position

    return read


def _array_writer(write_element: Write, nullable: bool, is_flexible: bool) -> Write:
    write_length = write_compact_length if is_flexible else write_length32

    def write(out: Outgoing, value: Any) -> None:
        if value is None:
            assert nullable, "an array that must be there is None"
            write_length(out.buffer, -1)
            return
        write_length(out.buffer, len(value))
        for element in value:
            write_element(out, element)

    return write


@cache
def _sized_reader(kind: Kind, nullable: bool, is_flexible: bool) -> Read:
    """Strings, bytes and records: a length and so many bytes."""
    if is_flexible:
        read_length = read_compact_length
    else:
        read_length = read_length16 if kind is Kind.STRING else read_length32

    def read(view: memoryview, position: int, budget: Budget) -> tuple[Any, int]:
        del budget
        size, position = read_length(view, position)
        if size < 0:
            if not nullable:
                raise MalformedFrame(f"A field of {kind.value} that must be there is null.")
            return None, position
        end = position + size
        if end > len(view):
            raise MalformedFrame(f"A field of {kind.value} is longer than its frame.")
        part = view[position:end]
        if kind is Kind.STRING:
            if size > STRING_BYTES_MAX:
                raise MalformedFrame(f"A string of {size} bytes is longer than Kafka allows.")
            return str(part, "utf-8"), end
        return part if kind is Kind.RECORDS else bytes(part), end

    return read


@cache
def _sized_writer(kind: Kind, nullable: bool, is_flexible: bool) -> Write:
    if is_flexible:
        write_length = write_compact_length
    else:
        write_length = write_length16 if kind is Kind.STRING else write_length32

    def write(out: Outgoing, value: Any) -> None:
        if value is None:
            assert nullable, f"a field of {kind.value} that must be there is None"
            write_length(out.buffer, -1)
        elif kind is Kind.STRING:
            encoded = value.encode()
            if len(encoded) > STRING_BYTES_MAX:
                # Only a sentence of ours that quotes a client gets so long.
                encoded = encoded[:STRING_BYTES_MAX].decode(errors="ignore").encode()
            write_length(out.buffer, len(encoded))
            out.buffer += encoded
        elif isinstance(value, (bytes, bytearray, memoryview)):
            write_length(out.buffer, len(value))
            out.buffer += value
        else:
            write_length(out.buffer, value.length)
            out.add_payload(value)

    return write
