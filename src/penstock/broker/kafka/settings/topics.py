"""Settings of topics and brokers as Kafka's users know them: read, changed, described.

It changes nothing itself: `broker.topics.topics` does, with what `from_kafka`, `change` and
`replace_all` give it. The invariant: what is accepted is described again with the value it was set
to, and what Kafka does not know is refused as Kafka refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from penstock.broker.config import BrokerConfig
from penstock.broker.kafka.settings.table import TOPIC_SETTINGS, KafkaSetting, SettingType
from penstock.broker.topics.defaults import TopicDefaults
from penstock.model import topic_config
from penstock.model.errors import InvalidConfig, InvalidRequest
from penstock.model.topic_config import KEPT, TopicConfig
from penstock.registry.image import TopicImage


class Source(IntEnum):
    """Where a value comes from, as DescribeConfigs tells it (KIP-226)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    GROUP_CONFIG = 8


class OperationKind(IntEnum):
    """What IncrementalAlterConfigs can do to a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One change that IncrementalAlterConfigs asks for."""

    name: str
    kind: int
    value: str | None


class Changes(NamedTuple):
    """What `Topics.alter_by` is told: settings under our names, and those to take back."""

    settings: Mapping[str, str]
    reset: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Synonym:
    """A name under which the value, or one that it hides, was given."""

    name: str
    value: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedSetting:
    """A setting as DescribeConfigs and CreateTopics answer it."""

    name: str
    value: str
    type: SettingType
    source: Source
    read_only: bool
    synonyms: tuple[Synonym, ...]
    documentation: str
    sensitive: bool = False

    @property
    def is_default(self) -> bool:
        return self.source is Source.DEFAULT_CONFIG


_BY_NAME: Final = {row.name: row for row in TOPIC_SETTINGS}
# Our own settings may also be called as they are called here.
_ALIASES: Final = {
    "durability": "penstock.durability",
    "exclusive_producer": "penstock.exclusive.producer",
}
# The value each setting has where nobody said anything.
_DEFAULTS: Final = TopicConfig().as_text() | dict(KEPT)

# Kafka's names of a broker's settings; those it has no name for are `penstock.` and ours.
_BROKER_NAMES: Final = {
    "data": ("log.dirs", "log.dir"),
    "listen": ("listeners",),
    "advertise": ("advertised.listeners",),
    "broker_id": ("node.id", "broker.id"),
    "auto_create_topics": ("auto.create.topics.enable",),
    "partitions_default": ("num.partitions",),
    "connections_max": ("max.connections",),
    "frame_bytes_max": ("socket.request.max.bytes",),
    "retention_check_ms": ("log.retention.check.interval.ms",),
    "group_initial_rebalance_delay_ms": ("group.initial.rebalance.delay.ms",),
    "group_session_timeout_ms_min": ("group.min.session.timeout.ms",),
    "group_session_timeout_ms_max": ("group.max.session.timeout.ms",),
    "group_members_max": ("group.max.size",),
    "group_consumer_session_timeout_ms": ("group.consumer.session.timeout.ms",),
    "group_consumer_heartbeat_interval_ms": ("group.consumer.heartbeat.interval.ms",),
}
_Layers: TypeAlias = tuple[tuple[Source, Mapping[str, str]], ...]

# What tools look for and nobody can set here.
_BROKER_FACTS: Final = (
    ("default.replication.factor", "1", SettingType.INT, "Replicas of a topic."),
    ("delete.topic.enable", "true", SettingType.BOOLEAN, "Topics can be deleted."),
)


def from_kafka(
    settings: Mapping[str, str | None], rows: Mapping[str, KafkaSetting] = _BY_NAME
) -> dict[str, str]:
    """Settings under Kafka's names as `Topics.create` and `Topics.alter` take them, checked.

    rows: by name, where it is not topics whose settings they are."""
    names: dict[str, str] = {}
    result: dict[str, str] = {}
    for given, text in settings.items():
        row = _find(given, rows)
        if text is None:
            raise InvalidConfig(f"{given} has no value: give it one, or leave it out.")
        own = row.to_own(text)
        if result.setdefault(row.own_name, own) != own:
            raise InvalidConfig(
                f"{names[row.own_name]} and {given} contradict each other: give one of them."
            )
        names[row.own_name] = given
    return result


def change(
    settings: Mapping[str, str],
    defaults: TopicConfig,
    operations: Iterable[Operation],
    rows: Mapping[str, KafkaSetting] = _BY_NAME,
) -> Changes:
    """What IncrementalAlterConfigs makes of a topic's own settings; the broker's defaults are
    what a list is added to, or taken from, where the topic does not say it itself."""
    current = _values(settings, defaults)
    changed: dict[str, str | None] = {}
    reset: list[str] = []
    named: set[str] = set()
    for operation in operations:
        row = _find(operation.name, rows)
        if operation.name in named:
            raise InvalidRequest(f"{operation.name} is changed twice in one request: change once.")
        named.add(operation.name)
        match operation.kind:
            case OperationKind.SET:
                changed[operation.name] = operation.value
            case OperationKind.DELETE:
                reset.append(row.own_name)
            case OperationKind.APPEND | OperationKind.SUBTRACT:
                have = _items(row.from_own(current[row.own_name]))
                changed[operation.name] = ",".join(_edited(row, operation, have))
            case _:
                raise InvalidRequest(
                    f"{operation.kind} is no operation on {operation.name}: there are 0 (set), "
                    "1 (delete), 2 (append) and 3 (subtract)."
                )
    # Tools that copy a description (MirrorMaker) send both names of a setting that has two.
    new = from_kafka(changed, rows)
    for own_name in reset:
        if own_name in new:
            raise InvalidRequest(f"{own_name} is changed twice in one request: set or delete it.")
    return Changes(settings=new, reset=tuple(dict.fromkeys(reset)))


def replace_all(
    settings: Mapping[str, str],
    given: Mapping[str, str | None],
    rows: Mapping[str, KafkaSetting] = _BY_NAME,
) -> Changes:
    """What AlterConfigs makes of a topic's own settings: those it names are all it has."""
    new = from_kafka(given, rows)
    return Changes(settings=new, reset=tuple(name for name in settings if name not in new))


def describe(topic: TopicImage, defaults: TopicDefaults) -> list[DescribedSetting]:
    """Every setting of the topic, on a broker with these defaults."""
    values = _values(topic.settings, defaults.effective)
    layers = _layers(defaults)
    described: list[DescribedSetting] = []
    for row in TOPIC_SETTINGS:
        value = row.from_own(values[row.own_name])
        synonyms = _broker_synonyms(row, layers)
        source = synonyms[0].source if synonyms else Source.DEFAULT_CONFIG
        if row.own_name in topic.settings:
            source = Source.DYNAMIC_TOPIC_CONFIG
            synonyms = (Synonym(row.name, value, source), *synonyms)
        described.append(
            DescribedSetting(
                name=row.name,
                value=value,
                type=row.type,
                source=source,
                read_only=False,
                synonyms=synonyms,
                documentation=row.documentation,
            )
        )
    return described


def describe_broker(
    config: BrokerConfig, defaults: TopicDefaults, address: str
) -> list[DescribedSetting]:
    """What a broker was started with, and what of it was changed while it runs. address: where
    clients are told that it is."""
    described = [
        _fixed(name, value, kind, Source.DEFAULT_CONFIG, documentation)
        for name, value, kind, documentation in _BROKER_FACTS
    ]
    built_in = BrokerConfig()
    for field in fields(BrokerConfig):
        if field.name == "topic_defaults":
            continue
        # A password is for nobody who may only ask.
        shown = "registry_shown" if field.name == "registry" else field.name
        value = getattr(config, shown)
        is_default = value == getattr(built_in, field.name)
        if field.name == "advertise":
            value = address
        if field.name in ("advertise", "listen"):
            value = _listeners(value)
        described.extend(
            _fixed(
                name,
                _text(value),
                _type(field.name, value),
                Source.DEFAULT_CONFIG if is_default else Source.STATIC_BROKER_CONFIG,
                f"The setting {field.name} of a broker.",
            )
            for name in _BROKER_NAMES.get(field.name, (f"penstock.{field.name}",))
        )
    layers = _layers(defaults)
    for row in TOPIC_SETTINGS:
        synonyms = _broker_synonyms(row, layers)
        if synonyms:
            described.append(
                DescribedSetting(
                    name=row.broker_name,
                    value=synonyms[0].value,
                    type=row.type,
                    source=synonyms[0].source,
                    read_only=row.own_name not in topic_config.NAMES,
                    synonyms=synonyms,
                    documentation=row.documentation,
                )
            )
    return sorted(described, key=lambda setting: setting.name)


def _find(given: str, rows: Mapping[str, KafkaSetting]) -> KafkaSetting:
    row = rows.get(_ALIASES.get(given, given))
    if row is None:
        near = get_close_matches(given, rows, n=1)
        hint = f". Did you mean {near[0]}?" if near else ""
        # Kafka's own words, which tools and people know.
        raise InvalidConfig(f"Unknown topic config name: {given}{hint}")
    return row


def _values(settings: Mapping[str, str], defaults: TopicConfig) -> dict[str, str]:
    """The value of every setting, of a topic with these of its own."""
    effective = topic_config.with_settings(defaults, settings)
    return dict(KEPT) | effective.as_text() | topic_config.kept_settings(settings)


def _layers(defaults: TopicDefaults) -> _Layers:
    """What brokers say of topics' settings, the strongest first."""
    configured = defaults.configured.as_text()
    return (
        (Source.DYNAMIC_BROKER_CONFIG, defaults.here),
        (Source.DYNAMIC_DEFAULT_BROKER_CONFIG, defaults.everywhere),
        (
            Source.STATIC_BROKER_CONFIG,
            {name: text for name, text in configured.items() if text != _DEFAULTS[name]},
        ),
        (Source.DEFAULT_CONFIG, _DEFAULTS),
    )


def _broker_synonyms(row: KafkaSetting, layers: _Layers) -> tuple[Synonym, ...]:
    """What the broker says of a topic's setting, the strongest first."""
    if not row.broker_name:
        return ()
    return tuple(
        Synonym(row.broker_name, row.from_own(settings[row.own_name]), source)
        for source, settings in layers
        if row.own_name in settings
    )


def _listeners(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """As Kafka writes them. A Unix socket is none of its listeners, and stays as it is."""
    addresses = (value,) if isinstance(value, str) else value
    return tuple(
        each if each.startswith("unix:") else f"PLAINTEXT://{each}" for each in addresses if each
    )


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _edited(row: KafkaSetting, operation: Operation, have: list[str]) -> list[str]:
    """The items of a list after some were added, or taken away."""
    if row.type is not SettingType.LIST:
        raise InvalidConfig(f"{operation.name} is no list: it can only be set or deleted.")
    if operation.value is None:
        raise InvalidRequest(f"{operation.name} has no value to add or take away: give it one.")
    given = _items(operation.value)
    if operation.kind == OperationKind.SUBTRACT:
        taken = set(given)
        return [item for item in have if item not in taken]
    there = set(have)
    return have + [item for item in given if item not in there]


def _fixed(
    name: str, value: str, kind: SettingType, source: Source, documentation: str
) -> DescribedSetting:
    return DescribedSetting(
        name=name,
        value=value,
        type=kind,
        source=source,
        read_only=True,
        synonyms=(Synonym(name, value, source),),
        documentation=documentation,
    )


def _type(name: str, value: object) -> SettingType:
    match value:
        case bool():
            return SettingType.BOOLEAN
        case int():
            return SettingType.LONG if name.endswith("_ms") else SettingType.INT
        case tuple():
            return SettingType.LIST
    return SettingType.STRING


def _text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
    return str(value)
