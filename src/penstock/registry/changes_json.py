"""Changes of facts as JSON, for a log and for the wire: written compactly, read with suspicion.

A change says its kind. Not what it does: `registry.facts` applies it. The invariant: what is read
back is what was written, and any other fields raise an error that `json_fields.decoded` turns into
CorruptFacts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, assert_never

from penstock.model.ids import BrokerId, TopicId, check_topic_name
from penstock.model.limits import BROKER_ID_MAX, MOVES_PER_CHANGE_MAX, PARTITIONS_PER_TOPIC_MAX
from penstock.model.topic_config import INT64_MAX
from penstock.registry.facts import (
    AddPartitions,
    Adopt,
    BeginDeletion,
    Change,
    ChangeBrokerSettings,
    ChangeSettings,
    ChangeTargets,
    CreateTopic,
    DrainBroker,
    ExpireBroker,
    FinishDeletion,
    Move,
    RegisterBroker,
    Replicas,
    ReserveProducerIds,
    Seen,
)
from penstock.registry.facts_json import (
    ID_DIGITS,
    broker_fields,
    deletion_fields,
    facts_fields,
    node_entry,
    read_broker,
    read_broker_name,
    read_deletion,
    read_facts,
    read_node,
    read_replicas,
    read_settings,
)
from penstock.registry.json_fields import Fields, checked_number, flag, hexadecimal, list_of, number


def change_fields(change: Change) -> dict[str, Any]:
    """The change as a document's fields, with its kind."""
    match change:
        case RegisterBroker():
            return {"kind": "register_broker", **broker_fields(change.broker)}
        case ExpireBroker():
            return {"kind": "expire_broker", "node": node_entry(change.node)}
        case DrainBroker():
            return {
                "kind": "drain_broker",
                "broker": change.broker,
                "is_drained": change.is_drained,
            }
        case ChangeBrokerSettings():
            return {
                "kind": "change_broker_settings",
                "broker": change.broker,
                "settings": dict(change.settings),
                "seen": dict(change.seen),
            }
        case ReserveProducerIds():
            return {"kind": "reserve_producer_ids", "count": change.count}
        case Adopt():
            return {"kind": "adopt", "facts": facts_fields(change.facts)}
        case _:
            return _topic_change_fields(change)


def _topic_change_fields(
    change: CreateTopic
    | BeginDeletion
    | FinishDeletion
    | ChangeSettings
    | AddPartitions
    | ChangeTargets,
) -> dict[str, Any]:
    match change:
        case CreateTopic():
            return {
                "kind": "create_topic",
                "name": change.name,
                "id": change.id,
                "settings": dict(change.settings),
                "placement": change.placement,
            }
        case BeginDeletion():
            deletion = None if change.deletion is None else deletion_fields(change.deletion)
            fields = {"kind": "begin_deletion", "name": change.name, "deletion": deletion}
            return fields if change.last_term is None else fields | {"last_term": change.last_term}
        case FinishDeletion():
            return {"kind": "finish_deletion", "name": change.name, "id": change.id}
        case ChangeSettings():
            return {
                "kind": "change_settings",
                "name": change.name,
                "settings": dict(change.settings),
                "version": change.version,
            }
        case AddPartitions():
            return {
                "kind": "add_partitions",
                "name": change.name,
                "first": change.first,
                "placement": change.placement,
            }
        case ChangeTargets():
            return {"kind": "change_targets", "moves": change.moves, "seen": dict(change.seen)}
        case _:
            assert_never(change)


def read_change(fields: Fields) -> Change:
    """The change that the fields tell of; an error of Python's own if they tell of none."""
    reader = _READERS.get(fields["kind"])
    if reader is None:
        raise ValueError(f"there is no change of the kind {fields['kind']!r}")
    return reader(fields)


def _register(fields: Fields) -> Change:
    return RegisterBroker(broker=read_broker(fields))


def _expire(fields: Fields) -> Change:
    return ExpireBroker(node=read_node(fields["node"]))


def _drain(fields: Fields) -> Change:
    broker = BrokerId(number(fields, "broker", BROKER_ID_MAX))
    return DrainBroker(broker=broker, is_drained=flag(fields, "is_drained"))


def _change_broker_settings(fields: Fields) -> Change:
    return ChangeBrokerSettings(
        broker=read_broker_name(fields["broker"]),
        settings=read_settings(fields["settings"]),
        seen=read_settings(fields["seen"]),
    )


def _reserve(fields: Fields) -> Change:
    count = number(fields, "count", BROKER_ID_MAX)
    if not count:
        raise ValueError("no producer ids are reserved")
    return ReserveProducerIds(count=count)


def _adopt(fields: Fields) -> Change:
    return Adopt(facts=read_facts(fields["facts"]))


def _create(fields: Fields) -> Change:
    return CreateTopic(
        name=_name(fields["name"]),
        id=_topic_id(fields["id"]),
        settings=read_settings(fields["settings"]),
        placement=_placement(fields),
    )


def _begin_deletion(fields: Fields) -> Change:
    deletion = fields["deletion"]
    return BeginDeletion(
        name=_name(fields["name"]),
        deletion=None if deletion is None else read_deletion(deletion),
        last_term=number(fields, "last_term", INT64_MAX) if "last_term" in fields else None,
    )


def _finish_deletion(fields: Fields) -> Change:
    return FinishDeletion(name=_name(fields["name"]), id=_topic_id(fields["id"]))


def _change_settings(fields: Fields) -> Change:
    version = fields["version"]
    return ChangeSettings(
        name=_name(fields["name"]),
        settings=read_settings(fields["settings"]),
        version=None if version is None else checked_number(version, "version", INT64_MAX),
    )


def _add_partitions(fields: Fields) -> Change:
    return AddPartitions(
        name=_name(fields["name"]),
        first=number(fields, "first", PARTITIONS_PER_TOPIC_MAX),
        placement=_placement(fields),
    )


def _change_targets(fields: Fields) -> Change:
    moves = []
    for name, partition, replicas in list_of(fields, "moves", MOVES_PER_CHANGE_MAX):
        place = checked_number(partition, "a partition", PARTITIONS_PER_TOPIC_MAX)
        moves.append(Move(_name(name), place, read_replicas(replicas)))
    seen = {}
    for name, (topic_id, version) in fields["seen"].items():
        seen[_name(name)] = Seen(
            _topic_id(topic_id), checked_number(version, "a version", INT64_MAX)
        )
    return ChangeTargets(moves=tuple(moves), seen=seen)


def _name(text: object) -> str:
    return check_topic_name(str(text))


def _topic_id(text: object) -> TopicId:
    return TopicId(hexadecimal(text, ID_DIGITS))


def _placement(fields: Fields) -> tuple[Replicas, ...]:
    placement = tuple(map(read_replicas, list_of(fields, "placement", PARTITIONS_PER_TOPIC_MAX)))
    if not placement:
        raise ValueError("no partitions are placed")
    return placement


_READERS: Final[Mapping[str, Callable[[Fields], Change]]] = MappingProxyType(
    {
        "register_broker": _register,
        "expire_broker": _expire,
        "drain_broker": _drain,
        "change_broker_settings": _change_broker_settings,
        "reserve_producer_ids": _reserve,
        "adopt": _adopt,
        "create_topic": _create,
        "begin_deletion": _begin_deletion,
        "finish_deletion": _finish_deletion,
        "change_settings": _change_settings,
        "add_partitions": _add_partitions,
        "change_targets": _change_targets,
    }
)
