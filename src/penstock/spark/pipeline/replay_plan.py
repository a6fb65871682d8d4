"""What a replay writes, cut into chunks: kept in its checkpoint, so that a restart goes on.

Rows are ordered by time, then topic, partition and offset. A chunk goes from one row of that order
to another, so it is the same rows whenever it is read. The invariant: a plan is written once,
whole, before the first row is; a checkpoint of another replay is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from penstock.model.errors import InvalidConfig

_VERSION: Final = 1
_PLAN: Final = "replay.json"
_NEXT: Final = "next.json"


class Place(NamedTuple):
    """A row's place in the order of a replay."""

    time_us: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All chunks of a replay."""

    name: str
    """Under which the broker knows what was written: the same after a restart."""
    request: Mapping[str, str | None]
    """What was asked for, as it was written, to tell one replay from another."""
    from_ms: int | None
    to_ms: int | None
    shift_ms: int
    rows: int
    chunk_rows: int
    begins: tuple[Place, ...]
    """The first row of each chunk."""

    def rows_of(self, chunk: int) -> int:
        return min(self.chunk_rows, self.rows - chunk * self.chunk_rows)


def load_plan(folder: str, request: Mapping[str, str | None]) -> Plan | None:
    """The plan of this checkpoint, if there is one."""
    path = os.path.join(folder, _PLAN)
    try:
        with open(path, encoding="utf-8") as file:
            document: dict[str, Any] = json.load(file)
        if document.pop("version") != _VERSION:
            raise InvalidConfig(f"{path} was written by a newer Penstock: use that one.")
        document["begins"] = tuple(Place(*begin) for begin in document["begins"])
        plan = Plan(**document)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise InvalidConfig(f"{path} is no replay's: take another checkpoint.") from None
    if dict(plan.request) != dict(request):
        names = [name for name, text in request.items() if plan.request.get(name) != text]
        raise InvalidConfig(
            f"The checkpoint {folder} is of another replay ({', '.join(names)} differ): take "
            "another one, or ask for the same."
        )
    return plan


def save_plan(folder: str, plan: Plan) -> None:
    _save(
        os.path.join(folder, _PLAN),
        {
            "version": _VERSION,
            "name": plan.name,
            "request": dict(plan.request),
            "from_ms": plan.from_ms,
            "to_ms": plan.to_ms,
            "shift_ms": plan.shift_ms,
            "rows": plan.rows,
            "chunk_rows": plan.chunk_rows,
            "begins": plan.begins,
        },
    )


def next_chunk(folder: str) -> int:
    """The first chunk that is not known to be written. It may be: the broker knows."""
    try:
        with open(os.path.join(folder, _NEXT), encoding="utf-8") as file:
            return int(json.load(file)["chunk"])
    except FileNotFoundError:
        return 0


def save_next_chunk(folder: str, chunk: int) -> None:
    _save(os.path.join(folder, _NEXT), {"chunk": chunk})


def _save(path: str, document: Mapping[str, object]) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)
