"""`${NAME}` in a pipeline's texts, replaced from the environment; `${NAME:-text}` has a default.

Pure: the environment is a parameter. The invariant: nothing is replaced by nothing; a variable that
is not set and has no default is a mistake of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from penstock.spark.pipeline.declared.toml_lines import Path

_VARIABLE: Final = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


def substituted(
    value: object,
    environment: Mapping[str, str],
    missing: Callable[[Path, str], None],
    path: Path = (),
) -> object:
    """The value with the variables in all its texts replaced. `missing` is told of those that are
    not set, with the way to the text."""

    def replacement(found: re.Match[str]) -> str:
        name, default = found["name"], found["default"]
        if name in environment:
            return environment[name]
        if default is None:
            missing(path, name)
            return found[0]
        return default

    match value:
        case str():
            return _VARIABLE.sub(replacement, value)
        case dict():
            return {
                key: substituted(inner, environment, missing, (*path, key))
                for key, inner in value.items()
            }
        case list():
            return [
                substituted(inner, environment, missing, (*path, number))
                for number, inner in enumerate(value)
            ]
    return value
