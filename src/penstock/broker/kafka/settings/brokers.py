"""Settings of brokers that can be changed while they run, and the levels of their loggers.

Kafka's names for them, and what is refused; `broker.topics.topics` makes the change, `registry`
keeps it. The invariant: what is not in `DYNAMIC` needs a restart, and is refused as Kafka refuses
it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.broker.kafka.settings.table import TOPIC_SETTINGS, KafkaSetting, SettingType
from penstock.broker.kafka.settings.topics import DescribedSetting, Operation, OperationKind, Source
from penstock.broker.topics.defaults import TopicDefaults
from penstock.model import topic_config
from penstock.model.errors import InvalidConfig, InvalidRequest

DYNAMIC: Final[Mapping[str, KafkaSetting]] = {
    row.broker_name: replace(row, name=row.broker_name, setting=row.own_name)
    for row in TOPIC_SETTINGS
    if row.broker_name and row.own_name in topic_config.NAMES
}
"""The defaults of topics: all of them that have an effect here."""

# Kafka's name for what holds where a logger has no level of its own; ours is the package's.
_ROOT: Final = "root"
_OURS: Final = "penstock"
_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def check_dynamic(names: Iterable[str], described: Iterable[DescribedSetting]) -> None:
    """Refuse what cannot be changed while the broker runs; `described` is all that it has."""
    fixed = {setting.name for setting in described}.difference(DYNAMIC)
    for name in names:
        if name in fixed:
            # Kafka's own words, which tools and people know.
            raise InvalidRequest(
                f"Cannot update these configs dynamically: Set({name}). Restart the broker with "
                "another value."
            )
        if name not in DYNAMIC:
            raise InvalidConfig(f"A broker has no setting {name}.")


def describe_everywhere(
    defaults: TopicDefaults, described: Iterable[DescribedSetting]
) -> list[DescribedSetting]:
    """What was set for all brokers; `described` is all that this one has."""
    source = Source.DYNAMIC_DEFAULT_BROKER_CONFIG
    of_all = []
    for setting in described:
        row = DYNAMIC.get(setting.name)
        if row is not None and row.own_name in defaults.everywhere:
            synonyms = tuple(each for each in setting.synonyms if each.source is source)
            value = synonyms[0].value
            of_all.append(replace(setting, value=value, source=source, synonyms=synonyms))
    return of_all


# --- loggers -----------------------------------------------------------------------------------


def describe_loggers() -> list[DescribedSetting]:
    """Each with the level that holds for it (KIP-412)."""
    return [
        DescribedSetting(
            name=name,
            value=_word(logger.getEffectiveLevel()),
            type=SettingType.STRING,
            source=Source.DYNAMIC_BROKER_LOGGER_CONFIG,
            read_only=False,
            synonyms=(),
            documentation="What is logged, until the broker's next start.",
        )
        for name, logger in sorted(_loggers().items())
    ]


def alter_loggers(operations: Iterable[Operation], *, validate_only: bool) -> None:
    """All of the changes or none. They last until the next start."""
    loggers = _loggers()
    levels: dict[str, int] = {}
    for operation in operations:
        if operation.name not in loggers:
            raise InvalidConfig(f"Logger {operation.name} does not exist!")
        if operation.name in levels:
            raise InvalidRequest(f"{operation.name} is changed twice in one request: change once.")
        levels[operation.name] = _level(operation)
    if not validate_only:
        for name, level in levels.items():
            loggers[name].setLevel(level)


def _level(operation: Operation) -> int:
    match operation.kind:
        case OperationKind.SET:
            level = _LEVELS.get((operation.value or "").strip().upper())
            if level is None:
                raise InvalidConfig(
                    f"Cannot set the log level of {operation.name} to {operation.value}: it can be "
                    f"{', '.join(_LEVELS)}."
                )
            return level
        case OperationKind.DELETE if operation.name != _ROOT:
            return logging.NOTSET
        case OperationKind.DELETE:
            raise InvalidRequest("The level of the root logger can be set, not taken back.")
    raise InvalidRequest(f"The level of {operation.name} is no list: it can be set or taken back.")


def _loggers() -> dict[str, logging.Logger]:
    """Those of ours. They are a few hundred, and clients make none."""
    found = {
        name: logger
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.startswith(f"{_OURS}.")
    }
    return {_ROOT: logging.getLogger(_OURS)} | found


def _word(level: int) -> str:
    """Kafka's, of the level or the nearest below it."""
    words = [word for word, number in _LEVELS.items() if number <= level]
    return words[-1] if words else "TRACE"
