"""Kafka messages made by chance from a seed: ours from our declarations, kio's from kio's own.

Two generators that know nothing of each other, so that each side is asked for what it allows: every
null, every tagged field, the ends of every range. The invariant: one seed, one message.
"""

from __future__ import annotations

import importlib
import io
import random
import uuid
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin

from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

from penstock.protocol.kafka.apis import APIS, Api
from penstock.protocol.kafka.codec import Outgoing, read_message, write_message
from penstock.protocol.kafka.schema import ZERO_UUID, Kind, Wire, wire_of

ELEMENTS_MAX = 3
# Around the lengths where a compact length takes its second byte, and beyond Latin letters.
STRINGS = ("", "a", "orders", "größe→消息🌊", "x" * 126, "y" * 127, "z" * 128)
KIO_ERROR_CODES = tuple(int(code) for code in KioErrorCode)
_BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}


class Form(NamedTuple):
    """A message in one version, requests and responses apart."""

    api: Api
    version: int
    kind: type[Any]

    @property
    def is_flexible(self) -> bool:
        return self.api.is_flexible(self.version)

    @property
    def kio_kind(self) -> Any:
        """kio's class of this very version."""
        which = "request" if self.kind is self.api.request else "response"
        name = f"kio.schema.{api_key_map[self.api.key]}.v{self.version}.{which}"
        return getattr(importlib.import_module(name), self.kind.__name__)

    def __str__(self) -> str:
        return f"{self.kind.__name__}-v{self.version}"

    def write(self, message: object) -> bytes:
        out = Outgoing()
        write_message(message, self.version, self.is_flexible, out)
        assert not out.parts
        return bytes(out.buffer)

    def read(self, data: bytes) -> Any:
        return read_message(self.kind, self.version, self.is_flexible, memoryview(data))


FORMS = [
    Form(api, version, kind)
    for api in APIS.values()
    for version in range(api.version_min, api.version_max + 1)
    for kind in (api.request, api.response)
]


def kio_write(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def kio_read(kind: Any, data: bytes) -> Any:
    """The message that is all of the data."""
    message, length = entity_reader(kind)(data, 0)
    assert length == len(data), "kio reads less than all of it"
    return message


class Samples:
    """What the seed gives, one after another."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    # --- ours ----------------------------------------------------------------------------------

    def ours(self, kind: type[Any], version: int, *, tagged: bool = True) -> Any:
        """A message of ours; without tagged fields if they are not wanted."""
        values = {}
        for declared in fields(kind):
            wire = wire_of(declared.metadata)
            if wire.is_in(version) and not (wire.tag is not None and self._leaves_out(tagged)):
                values[declared.name] = self._our_value(declared.name, wire, version, tagged)
        return kind(**values)

    def _our_value(self, name: str, wire: Wire, version: int, tagged: bool) -> Any:
        if wire.is_nullable_in(version) and self._random.random() < 0.25:
            return None
        if wire.is_array:
            return [self._our_simple(name, wire, version, tagged) for _ in self._count()]
        return self._our_simple(name, wire, version, tagged)

    def _our_simple(self, name: str, wire: Wire, version: int, tagged: bool) -> Any:
        if wire.struct is not None:
            return self.ours(wire.struct, version, tagged=tagged)
        match wire.kind:
            case Kind.BOOL:
                return self._random.random() < 0.5
            case Kind.UUID:
                return self._random.choice((ZERO_UUID, self._random.randbytes(16)))
            case Kind.STRING:
                return self._random.choice(STRINGS)
            case Kind.BYTES | Kind.RECORDS:
                return self._bytes()
            case Kind.UINT16:
                return self._random.choice((0, 9092, 2**16 - 1))
        # kio has types of its own for these, which hold less than the wire does.
        if name.endswith("error_code"):
            return self._random.choice(KIO_ERROR_CODES)
        if name == "log_append_time_ms":
            return self._random.choice((-1, 0, 1_700_000_000_000))
        if name == "retention_time_ms":
            return self._random.choice((-1, 0, 604_800_000))
        return self._integer(_BITS[wire.kind])

    # --- kio's ---------------------------------------------------------------------------------

    def theirs(self, kind: Any) -> Any:
        """A message of kio's."""
        values = {}
        for declared in fields(kind):
            is_tagged = "tag" in declared.metadata
            if is_tagged and declared.default is not MISSING and self._leaves_out(True):
                continue
            name = declared.metadata.get("kafka_type", "")
            values[declared.name] = self._their_value(declared.type, name, is_tagged)
        return kind(**values)

    def _their_value(self, annotation: Any, name: str, is_tagged: bool) -> Any:
        options = get_args(annotation)
        if NoneType in options:
            # A tagged field is null by not being there.
            if not is_tagged and self._random.random() < 0.25:
                return None
            (annotation,) = (option for option in options if option is not NoneType)
        if get_origin(annotation) is tuple:
            element = get_args(annotation)[0]
            return tuple(self._their_simple(element, name) for _ in self._count())
        return self._their_simple(annotation, name)

    def _their_simple(self, annotation: Any, name: str) -> Any:
        if is_dataclass(annotation):
            return self.theirs(annotation)
        match name:
            case "bool":
                return self._random.random() < 0.5
            case "uuid":
                return uuid.UUID(bytes=self._random.randbytes(16))
            case "string":
                return self._random.choice(STRINGS)
            case "bytes" | "records":
                return self._bytes()
            case "error_code":
                return self._random.choice(list(KioErrorCode))
            case "timedelta_i32" | "timedelta_i64":
                return timedelta(milliseconds=self._integer(32))
            case "datetime_i64":
                return datetime.fromtimestamp(self._random.randrange(2**31), UTC)
            case "uint16":
                return self._random.choice((0, 9092, 2**16 - 1))
        return self._integer(int(name.removeprefix("int")))

    # --- chance --------------------------------------------------------------------------------

    def _leaves_out(self, tagged: bool) -> bool:
        return not tagged or self._random.random() < 0.5

    def _count(self) -> range:
        return range(self._random.randint(0, ELEMENTS_MAX))

    def _bytes(self) -> bytes:
        return self._random.randbytes(self._random.choice((0, 1, 61, 127, 300)))

    def _integer(self, bits: int) -> int:
        end = 2 ** (bits - 1)
        return self._random.choice((0, 1, -1, -end, end - 1, self._random.randrange(-end, end)))


# --- equality across the two -------------------------------------------------------------------


def assert_same(ours: Any, theirs: Any, version: int, where: str = "") -> None:
    """Field by field, in the order of the wire; also that no field is known to one side only."""
    for mine, other in _pairs(type(ours), type(theirs), version):
        place = f"{where}.{mine.name}"
        wire = wire_of(mine.metadata)
        value, their_value = getattr(ours, mine.name), getattr(theirs, other.name)
        if wire.struct is not None and not wire.is_array and wire.tag is not None and value is None:
            assert their_value == type(their_value)(), place
            continue
        for one, another in _elements(value, their_value, place):
            if is_dataclass(one):
                assert_same(one, another, version, place)
            else:
                assert one == _plain(another, wire), place


def assert_same_defaults(ours: type[Any], theirs: Any, version: int, where: str = "") -> None:
    """Of the fields for which Kafka's definitions name a default, down to the last structure."""
    for mine, other in _pairs(ours, theirs, version):
        place = f"{where}.{mine.name}"
        wire = wire_of(mine.metadata)
        if wire.struct is not None:
            assert_same_defaults(wire.struct, _structure(other.type), version, place)
        if other.default is not MISSING and (wire.is_array or wire.struct is None):
            assert mine.default == _plain(other.default, wire), place


def _pairs(ours: type[Any], theirs: Any, version: int) -> Iterator[tuple[Field[Any], Field[Any]]]:
    """The fields of both, which must be the same ones in the same order."""
    declared = [field for field in fields(ours) if wire_of(field.metadata).is_in(version)]
    for mine, other in zip(declared, fields(theirs), strict=True):
        # kio takes the unit out of a name when it takes it into the type.
        assert mine.name in (other.name, f"{other.name}_ms"), (ours, mine.name, other.name)
        yield mine, other


def _structure(annotation: Any) -> Any:
    """The one dataclass in `X`, `X | None` or `tuple[X, ...] | None`."""
    if is_dataclass(annotation):
        return annotation
    return next(filter(None, map(_structure, get_args(annotation))), None)


def _elements(value: Any, their_value: Any, place: str) -> Iterator[tuple[Any, Any]]:
    if isinstance(their_value, tuple):
        assert value is not None, place
        yield from zip(value, their_value, strict=True)
    else:
        yield value, their_value


def _plain(value: Any, wire: Wire) -> Any:
    """A value of kio's as we have it."""
    match value:
        case None if wire.kind is Kind.UUID:
            return ZERO_UUID
        case None if wire.kind is Kind.INT64:
            return -1  # of a time
        case uuid.UUID():
            return value.bytes
        case timedelta():
            return value // timedelta(milliseconds=1)
        case datetime():
            return int(value.timestamp()) * 1000
    return value
