"""What a declaration says of a field, and what may be said."""

# A field is declared by a call that makes its dataclass field.
# ruff: noqa: RUF009

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from typing import Any

import pytest

from penstock.protocol.kafka.apis import APIS, Api
from penstock.protocol.kafka.schema import (
    VERSION_MAX,
    ZERO_UUID,
    Kind,
    Wire,
    array,
    binary,
    boolean,
    int32,
    records,
    string,
    struct,
    uuid,
    wire_of,
)


@dataclass(slots=True)
class Inner:
    number: int = int32(default=-1)


@dataclass(slots=True)
class Everything:
    number: int = int32(since=2, until=4, default=7)
    flag: bool = boolean(default=1)
    id: bytes = uuid(tag=0)
    text: str | None = string(nullable_since=3, tag=1, tagged_since=5, default=None)
    data: bytes = binary()
    batches: memoryview | None = records()
    inner: Inner = struct(Inner)
    nullable: Inner | None = struct(Inner, nullable_since=1)
    tagged: Inner | None = struct(Inner, tag=2)
    inners: tuple[Inner, ...] = array(Inner)
    numbers: tuple[int, ...] = array(Kind.INT32)


def wires(kind: type[Any]) -> dict[str, Wire]:
    return {declared.name: wire_of(declared.metadata) for declared in fields(kind)}


def test_every_field_has_a_default() -> None:
    message = Everything()
    assert message.number == 7
    assert message.flag is True
    assert message.id == ZERO_UUID
    assert message.data == b""
    assert message.inner == Inner(-1)
    assert (message.text, message.batches, message.nullable, message.tagged) == (None,) * 4
    assert (message.inners, message.numbers) == ((), ())
    assert Everything().inner is not message.inner, "a structure belongs to one message"


def test_a_field_is_in_its_versions_alone() -> None:
    number = wires(Everything)["number"]
    assert [version for version in range(7) if number.is_in(version)] == [2, 3, 4]
    assert wires(Everything)["flag"].is_in(VERSION_MAX)


def test_null_and_tags_begin_with_a_version() -> None:
    text = wires(Everything)["text"]
    assert [version for version in range(5) if text.is_nullable_in(version)] == [3, 4]
    assert [version for version in range(7) if text.is_tagged_in(version)] == [5, 6]
    assert not wires(Everything)["number"].is_tagged_in(VERSION_MAX)
    assert not wires(Everything)["data"].is_nullable_in(VERSION_MAX)


def test_arrays_know_their_elements() -> None:
    inners, numbers = wires(Everything)["inners"], wires(Everything)["numbers"]
    assert (inners.is_array, inners.kind, inners.struct) == (True, Kind.STRUCT, Inner)
    assert (numbers.is_array, numbers.kind, numbers.struct) == (True, Kind.INT32, None)


def structures(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for wire in wires(kind).values():
        if wire.struct is not None:
            yield from structures(wire.struct)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_declarations_keep_the_codecs_assumptions(api: Api) -> None:
    """Tags differ within a structure; a structure that must be there is so in every version; and
    batches are in no tagged field, whose length must be known before them."""
    for kind in {*structures(api.request), *structures(api.response)}:
        tags = [wire.tag for wire in wires(kind).values() if wire.tag is not None]
        assert len(tags) == len(set(tags)), kind
        for declared in fields(kind):
            wire = wire_of(declared.metadata)
            if declared.default is MISSING:
                assert all(map(wire.is_in, range(api.version_min, api.version_max + 1))), kind
            if wire.tag is not None and wire.struct is not None:
                inside = [wires(structure) for structure in structures(wire.struct)]
                assert all(w.kind is not Kind.RECORDS for each in inside for w in each.values())
