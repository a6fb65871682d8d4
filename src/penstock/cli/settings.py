"""The broker's settings from flags, environment and file, in this order of strength.

Pure: the caller reads the file and the environment. Whatever the source, a setting has the name it
has in `BrokerConfig`, or `topic_defaults.` and its name in `TopicConfig`, and its value is text in
the same notation. The invariant: nothing given is ignored; an unknown name is an error that says
which known one is nearest.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Final

from penstock.broker.config import BrokerConfig
from penstock.cli.quantities import duration_ms, size_bytes
from penstock.model import topic_config
from penstock.model.errors import InvalidConfig, InvalidRequest

ENVIRONMENT_PREFIX: Final = "PENSTOCK_"
# Variables with our prefix that say something else than a broker's setting.
OTHER_VARIABLES: Final = frozenset({"BOOTSTRAP", "CONFIG", "LOG_LEVEL", "PURE"})

# Says how the code runs, and not what a broker does.
_PURE: Final = f"{ENVIRONMENT_PREFIX}PURE"
_TOPIC_TABLE: Final = "topic_defaults"
# Every setting by its full name, with its type as the dataclass declares it.
_TYPES: Final[dict[str, str]] = {
    **{f.name: str(f.type) for f in fields(BrokerConfig) if f.name != _TOPIC_TABLE},
    **{f"{_TOPIC_TABLE}.{f.name}": str(f.type) for f in fields(topic_config.TopicConfig)},
}
_LIST: Final = "tuple[str, ...]"
_SWITCHES: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class _Given:
    """A setting as it was given: its value, and how its source calls it, for messages."""

    name: str
    text: str
    origin: str


def load(
    *,
    flags: Sequence[tuple[str, str]] = (),
    environment: Mapping[str, str] | None = None,
    file_text: str = "",
    file_name: str = "",
) -> BrokerConfig:
    """One checked configuration. A flag is (name, value): given again, it adds to a list and
    replaces anything else. The environment may be the whole of the process's."""
    given = {
        **_last_of(_from_file(file_text, file_name)),
        **_last_of(_from_environment(environment or {})),
        **_last_of(_from_flags(flags)),
    }
    broker: dict[str, object] = {}
    topic: dict[str, str] = {}
    for name, setting in given.items():
        table, _, inner = name.rpartition(".")
        if table:
            topic[inner] = str(_value(setting))
        else:
            broker[name] = _value(setting)
    defaults = topic_config.with_settings(topic_config.TopicConfig(), topic)
    config = replace(BrokerConfig(topic_defaults=defaults), **broker)  # type: ignore[arg-type]
    config.validate()
    return config


def as_environment(config: BrokerConfig) -> dict[str, str]:
    """The variables that say what the configuration says, without those that say a default."""
    defaults = BrokerConfig()
    variables = {
        field.name: _text(getattr(config, field.name))
        for field in fields(BrokerConfig)
        if field.name != _TOPIC_TABLE
        and getattr(config, field.name) != getattr(defaults, field.name)
    }
    usual = defaults.topic_defaults.as_text()
    for name, text in config.topic_defaults.as_text().items():
        if text != usual[name]:
            variables[f"{_TOPIC_TABLE}.{name}"] = text
    return {_variable(name): text for name, text in variables.items()}


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a broker that is told all it has to know: by somebody else's variables
    it would be another."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(ENVIRONMENT_PREFIX) or name == _PURE
    }


def topic_settings(assignments: Sequence[str]) -> dict[str, str]:
    """`name=value` pairs of one topic's settings, with sizes and times as plain numbers."""
    settings: dict[str, str] = {}
    for assignment in assignments:
        given, value = split_assignment(assignment)
        name = given.replace("-", "_").replace(".", "_")
        setting = _Given(f"{_TOPIC_TABLE}.{name}", value, given)
        settings[name] = str(_value(setting)) if setting.name in _TYPES else value
    # The broker checks again; here a mistake costs no connection.
    topic_config.with_settings(topic_config.TopicConfig(), settings)
    return settings


def split_assignment(assignment: str) -> tuple[str, str]:
    """`name=value` as its two sides."""
    name, equals, value = assignment.partition("=")
    if not equals or not name:
        raise InvalidConfig(f"{assignment!r} sets nothing: write it as name=value.")
    return name.strip(), value.strip()


def _from_flags(flags: Sequence[tuple[str, str]]) -> list[_Given]:
    given: list[_Given] = []
    for flag, text in flags:
        name = flag.replace("-", "_")
        given.append(_Given(_known(name, flag, str), text, flag))
    return given


def _from_environment(environment: Mapping[str, str]) -> list[_Given]:
    given: list[_Given] = []
    for variable, text in sorted(environment.items()):
        name = variable.removeprefix(ENVIRONMENT_PREFIX)
        if name == variable or name in OTHER_VARIABLES:
            continue
        setting = name.lower().replace("__", ".")
        given.append(_Given(_known(setting, variable, _variable), text, variable))
    return given


def _from_file(text: str, file_name: str) -> list[_Given]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(f"{file_name} is not TOML: {error}.") from None
    given: list[_Given] = []
    for key, value in tables.items():
        if key == _TOPIC_TABLE and isinstance(value, dict):
            pairs = [
                (f"{_TOPIC_TABLE}.{inner}", inner_value) for inner, inner_value in value.items()
            ]
        else:
            pairs = [(key, value)]
        for name, each in pairs:
            origin = f"{file_name}: {name}"
            given.append(_Given(_known(name, origin, str), _plain(each, origin), origin))
    return given


def _plain(value: object, origin: str) -> str:
    """A TOML value as the text that a flag would have."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case list() if all(isinstance(item, str) for item in value):
            return ",".join(value)
    raise InvalidConfig(f"{origin} is {value!r}: it must be a text, a number, true or false.")


def _text(value: object) -> str:
    """A setting's value as a variable has it."""
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


def _last_of(settings: Sequence[_Given]) -> dict[str, _Given]:
    """By name; of several the last, except that lists grow."""
    by_name: dict[str, _Given] = {}
    for setting in settings:
        earlier = by_name.get(setting.name)
        if earlier is not None and _TYPES[setting.name] == _LIST:
            setting = replace(setting, text=f"{earlier.text},{setting.text}")
        by_name[setting.name] = setting
    return by_name


def _known(name: str, origin: str, spell: Callable[[str], str]) -> str:
    """The name if it is a setting's; else an error with the nearest, as its source spells it."""
    if name in _TYPES:
        return name
    # People leave out the table, so its names also count without it.
    candidates = {known.rpartition(".")[2]: known for known in _TYPES} | {n: n for n in _TYPES}
    near = get_close_matches(name, candidates, n=1)
    hint = f"did you mean {spell(candidates[near[0]])}?" if near else "see docs/configuration.md."
    raise InvalidConfig(f"{origin} is no setting of a broker: {hint}")


def _variable(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "__")


def _value(setting: _Given) -> object:
    """The text as the type that its setting has. What it may be is checked with all the others."""
    kind = _TYPES[setting.name]
    if kind == "int":
        return _number(setting)
    if kind == _LIST:
        return tuple(part.strip() for part in setting.text.split(",") if part.strip())
    if kind != "bool":
        return setting.text
    switch = _SWITCHES.get(setting.text.lower())
    if switch is None:
        raise InvalidConfig(f"{setting.origin} is {setting.text!r}: it can be true or false.")
    return switch


def _number(setting: _Given) -> int:
    """A number in the unit that the setting's name contains."""
    try:
        if "ms" in setting.name.split("_"):
            return duration_ms(setting.text)
        if "bytes" in setting.name:
            return size_bytes(setting.text)
        return int(setting.text)
    except InvalidRequest as error:
        raise InvalidConfig(f"{setting.origin}: {error}") from None
    except ValueError:
        raise InvalidConfig(
            f"{setting.origin} is {setting.text!r}: it must be a whole number."
        ) from None
