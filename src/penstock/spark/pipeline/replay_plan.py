"""What a replay writes, and how far it came: kept in its checkpoint, so that a restart goes on.

Rows are ordered by time, then topic, partition and offset, and that order is cut into stretches. A
stretch goes from one row up to the next stretch's first, within offsets that were there when the
replay was planned: so it is the same rows whenever it is read, whatever is appended meanwhile. The
invariants: a plan is written once, whole, before the first row is; a checkpoint of another replay
is refused; one process at a time replays with a checkpoint.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from penstock.model.errors import Busy, InvalidConfig
from penstock.spark.pipeline.tables.durable_files import replace_file

_VERSION: Final = 1
_PLAN: Final = "replay.json"
_PROGRESS: Final = "written.json"
_LOCK: Final = "lock"


class Place(NamedTuple):
    """A row's place in the order of a replay."""

    time_us: int
    topic: str
    partition: int
    offset: int


class Span(NamedTuple):
    """The offsets of a partition between which a stretch has rows."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Rows that are read together."""

    begin: Place
    """The first of them."""
    rows: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All of a replay."""

    name: str
    """Under which the broker knows what was written: the same after a restart."""
    request: Mapping[str, str | None]
    """What was asked for, as it was written, to tell one replay from another."""
    source_id: str | None
    """The id of the topic that is read: one made anew under its name is another. None: a folder."""
    to_ms: int | None
    shift_ms: int
    stretches: tuple[Stretch, ...]

    @property
    def rows(self) -> int:
        return sum(stretch.rows for stretch in self.stretches)


@contextmanager
def held(folder: str) -> Iterator[None]:
    """The checkpoint's folder, made if it is not there, for this process alone."""
    try:
        os.makedirs(folder, exist_ok=True)
        lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        _take(lock, folder)
        yield
    finally:
        os.close(lock)


def load_plan(folder: str, request: Mapping[str, str | None], source_id: str | None) -> Plan | None:
    """The plan of this checkpoint, if there is one."""
    path = os.path.join(folder, _PLAN)
    try:
        plan = _parsed(path, _load(path))
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError):
        raise InvalidConfig(
            f"{path} is damaged, or no replay's: take another checkpoint."
        ) from None
    names = [name for name, text in request.items() if plan.request.get(name) != text]
    if names:
        raise InvalidConfig(
            f"The checkpoint {folder} is of another replay ({', '.join(names)} differ): take "
            "another one, or ask for the same."
        )
    if plan.source_id != source_id:
        raise InvalidConfig(
            f"The topic that the checkpoint {folder} was made for was deleted, and made anew: "
            "take another checkpoint."
        )
    return plan


def save_plan(folder: str, plan: Plan) -> None:
    _save(
        folder,
        _PLAN,
        {
            "version": _VERSION,
            "name": plan.name,
            "request": dict(plan.request),
            "source_id": plan.source_id,
            "to_ms": plan.to_ms,
            "shift_ms": plan.shift_ms,
            "stretches": [[each.begin, each.rows, each.spans] for each in plan.stretches],
        },
    )


def load_progress(folder: str) -> int:
    """How many rows are known to be written. It may be more: the broker knows."""
    path = os.path.join(folder, _PROGRESS)
    try:
        return int(_load(path)["rows"])
    except FileNotFoundError:
        return 0
    except (ValueError, LookupError, TypeError):
        raise InvalidConfig(
            f"{path} is damaged: remove it; the broker knows what is written, and it is not "
            "written again."
        ) from None


def save_progress(folder: str, rows: int) -> None:
    _save(folder, _PROGRESS, {"rows": rows})


def _take(lock: int, folder: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Busy(f"Another process replays with the checkpoint {folder}: end it first.") from None


def _parsed(path: str, document: Any) -> Plan:
    if document["version"] != _VERSION:
        raise InvalidConfig(f"{path} was written by a newer Penstock: use that one.")
    return Plan(
        name=str(document["name"]),
        request=dict(document["request"]),
        source_id=document["source_id"],
        to_ms=document["to_ms"],
        shift_ms=int(document["shift_ms"]),
        stretches=tuple(
            Stretch(begin=Place(*begin), rows=int(rows), spans=tuple(Span(*span) for span in spans))
            for begin, rows, spans in document["stretches"]
        ),
    )


def _load(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _save(folder: str, name: str, document: Mapping[str, object]) -> None:
    try:
        replace_file(os.path.join(folder, name), json.dumps(document).encode())
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: str, error: OSError) -> InvalidConfig:
    return InvalidConfig(
        f"The checkpoint {folder} cannot be written to: {error.strerror or error}."
    )
