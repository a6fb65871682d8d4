"""Reads the tables of a pipeline's file key by key, and notes everything that is wrong with them.

The invariant: nothing given is ignored. A key that nobody asked for is a mistake that names the
nearest key; a mistake does not end the reading, so all of them are found at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from penstock.model.errors import PenstockError
from penstock.spark.pipeline.declared.toml_lines import Path, line_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake of a file."""

    file: str
    line: int | None
    where: str
    """The way to the key, as in `sources.orders.topic`."""
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.where} {self.message}" if self.where else f"{place}: {self.message}"


@dataclass(slots=True)
class Problems:
    """The mistakes found so far, and what is needed to say where they are."""

    file: str
    lines: dict[Path, int] = field(default_factory=dict)
    labels: dict[Path, str] = field(default_factory=dict)
    """What people call tables that have only a number."""
    found: list[Problem] = field(default_factory=list)

    def add(self, path: Path, message: str) -> None:
        line = line_of(self.lines, path)
        parts = [self.labels.get(path[: end + 1], str(part)) for end, part in enumerate(path)]
        where = ".".join(parts)
        self.found.append(Problem(file=self.file, line=line, where=where, message=message))


def nearest(name: str, known: Collection[str]) -> str:
    """What to say after a name that is not known."""
    near = get_close_matches(name.lower(), {each.lower() for each in known}, n=1)
    original = {each.lower(): each for each in known}
    return f"did you mean {original[near[0]]}?" if near else f"there are {_listed(known)}."


class Table:
    """One table of the file. Every key is asked for once; `finish` tells of the others."""

    def __init__(self, values: object, path: Path, problems: Problems) -> None:
        self.path = path
        self._problems = problems
        self._known: set[str] = set()
        self._values: Mapping[str, object] = {}
        if isinstance(values, Mapping):
            self._values = values
        elif values is not None:
            problems.add(path, f"is {_shown(values)}: it must be a table.")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    @property
    def keys(self) -> list[str]:
        return list(self._values)

    def problem(self, key: str | None, message: str) -> None:
        self._problems.add(self.path if key is None else (*self.path, key), message)

    def take(self, key: str) -> object:
        """The value as it is, None if it is not there."""
        self._known.add(key)
        return self._values.get(key)

    def text(self, key: str) -> str | None:
        value = self.take(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        self.problem(key, f"is {_shown(value)}: it must be a text.")
        return None

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        value = self.text(key)
        if value is None or value in choices:
            return value or default
        self.problem(key, f"is {value!r}: {nearest(value, choices)}")
        return default

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; a single text counts as a list of one."""
        value = self.take(key)
        if isinstance(value, str):
            value = [value]
        if value is None:
            return ()
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            return tuple(value)
        self.problem(key, f"is {_shown(value)}: it must be a list of texts.")
        return ()

    def switch(self, key: str) -> bool:
        value = self.take(key)
        if not isinstance(value, bool | None):
            self.problem(key, f"is {_shown(value)}: it must be true or false.")
        return value is True

    def count(self, key: str, default: int) -> int:
        value = self.take(key)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        self.problem(key, f"is {_shown(value)}: it must be a whole number from 1 on.")
        return default

    def table(self, key: str) -> Table:
        return Table(self.take(key), (*self.path, key), self._problems)

    def options(self, key: str) -> dict[str, str]:
        """A table of plain values, as the texts that Spark's options are."""
        inner = self.table(key)
        options: dict[str, str] = {}
        for name in inner.keys:
            value = inner.take(name)
            if isinstance(value, bool):
                options[name] = str(value).lower()
            elif isinstance(value, str | int | float):
                options[name] = str(value)
            else:
                inner.problem(name, f"is {_shown(value)}: it must be a text or a number.")
        return options

    def exactly_one(self, *keys: str) -> str | None:
        """Which of these keys is there; a problem if none or several are."""
        given = [key for key in keys if key in self._values]
        if len(given) == 1:
            return given[0]
        self._known.update(keys)
        if given:
            self.problem(given[1], f"and {given[0]} exclude each other: give one of them.")
        else:
            self.problem(None, f"says not what it is: give one of {_listed(keys)}.")
        return None

    def finish(self, what: str) -> None:
        """Tell of keys that nobody asked for: they are no keys of such a table."""
        for key in self._values:
            if key not in self._known:
                self.problem(key, f"is no key of {what}: {nearest(key, self._known)}")


def attempt(problems: Problems, path: Path, error: PenstockError) -> None:
    """Note an error of a part that checks something by itself."""
    message = str(error)
    problems.add(path, f"is wrong: {message[0].lower()}{message[1:]}" if message else "is wrong.")


_SHOWN_LENGTH_MAX: Final = 40


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}…"


def _listed(names: Collection[str]) -> str:
    ordered = sorted(names)
    return " and ".join([", ".join(ordered[:-1]), ordered[-1]]) if len(ordered) > 1 else ordered[0]
