"""Changes of facts as JSON, for a log and for the wire: written compactly, read with suspicion.

One row for each kind of change. Not what a change does: `registry.facts` applies it. The invariant:
what is read back is what was written, and any other fields raise an error that
`json_fields.decoded` turns into CorruptFacts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from penstock.model.ids import BrokerId, TopicId, check_topic_name
from penstock.model.limits import BROKER_ID_MAX, MOVES_PER_CHANGE_MAX, PARTITIONS_PER_TOPIC_MAX
from penstock.model.topic_config import INT64_MAX
from penstock.registry import facts
from penstock.registry.facts import Change, Move, Replicas, Seen
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


class _Form(NamedTuple):
    """How one field of a change is written, and read from the document's fields by its name."""

    read: Callable[[Fields, str], Any]
    write: Callable[[Any], Any] = lambda value: value
    may_lack: bool = False
    """Whether None is not written at all, which earlier versions understand."""


def change_fields(change: Change) -> dict[str, Any]:
    """The change as a document's fields, with its kind."""
    kind, forms = _KINDS_BY_TYPE[type(change)]
    fields: dict[str, Any] = {"kind": kind}
    if isinstance(change, facts.RegisterBroker):
        return fields | broker_fields(change.broker)
    for name, form in forms.items():
        value = getattr(change, name)
        if value is not None or not form.may_lack:
            fields[name] = None if value is None else form.write(value)
    return fields


def read_change(fields: Fields) -> Change:
    """The change that the fields tell of; an error of Python's own if they tell of none."""
    kind = _KINDS.get(fields["kind"])
    if kind is None:
        raise ValueError(f"there is no change of the kind {fields['kind']!r}")
    make, forms = kind
    if make is facts.RegisterBroker:
        return facts.RegisterBroker(broker=read_broker(fields))
    values = {
        name: form.read(fields, name)
        for name, form in forms.items()
        if name in fields or not form.may_lack
    }
    return make(**values)


def _number(most: int) -> _Form:
    return _Form(lambda fields, name: number(fields, name, most))


def _value(read: Callable[[Any], Any], write: Callable[[Any], Any] = lambda value: value) -> _Form:
    return _Form(lambda fields, name: read(fields[name]), write)


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _name(text: object) -> str:
    return check_topic_name(str(text))


def _topic_id(text: object) -> TopicId:
    return TopicId(hexadecimal(text, ID_DIGITS))


def _version(value: object) -> int:
    return checked_number(value, "a version", INT64_MAX)


def _count(fields: Fields, name: str) -> int:
    count = number(fields, name, BROKER_ID_MAX)
    if not count:
        raise ValueError("no producer ids are reserved")
    return count


def _placement(fields: Fields, name: str) -> tuple[Replicas, ...]:
    placement = tuple(map(read_replicas, list_of(fields, name, PARTITIONS_PER_TOPIC_MAX)))
    if not placement:
        raise ValueError("no partitions are placed")
    return placement


def _moves(fields: Fields, name: str) -> tuple[Move, ...]:
    return tuple(
        Move(
            _name(topic),
            checked_number(partition, "a partition", PARTITIONS_PER_TOPIC_MAX),
            read_replicas(replicas),
        )
        for topic, partition, replicas in list_of(fields, name, MOVES_PER_CHANGE_MAX)
    )


def _seen(topics: Any) -> dict[str, Seen]:
    return {
        _name(name): Seen(_topic_id(topic_id), _version(version))
        for name, (topic_id, version) in topics.items()
    }


_NAME: Final = _value(_name)
_TOPIC_ID: Final = _value(_topic_id)
_SETTINGS: Final = _value(read_settings, dict)

_KINDS: Final[Mapping[str, tuple[Callable[..., Change], Mapping[str, _Form]]]] = MappingProxyType(
    {
        # Its fields are the broker's, beside the kind.
        "register_broker": (facts.RegisterBroker, {}),
        "expire_broker": (facts.ExpireBroker, {"node": _value(read_node, node_entry)}),
        "drain_broker": (
            facts.DrainBroker,
            {
                "broker": _Form(lambda fields, name: BrokerId(number(fields, name, BROKER_ID_MAX))),
                "is_drained": _Form(flag),
            },
        ),
        "change_broker_settings": (
            facts.ChangeBrokerSettings,
            {"broker": _value(read_broker_name), "settings": _SETTINGS, "seen": _SETTINGS},
        ),
        "reserve_producer_ids": (facts.ReserveProducerIds, {"count": _Form(_count)}),
        "adopt": (facts.Adopt, {"facts": _value(read_facts, facts_fields)}),
        "create_topic": (
            facts.CreateTopic,
            {
                "name": _NAME,
                "id": _TOPIC_ID,
                "settings": _SETTINGS,
                "placement": _Form(_placement),
            },
        ),
        "begin_deletion": (
            facts.BeginDeletion,
            {
                "name": _NAME,
                "deletion": _value(_or_none(read_deletion), deletion_fields),
                "last_term": _number(INT64_MAX)._replace(may_lack=True),
            },
        ),
        "finish_deletion": (facts.FinishDeletion, {"name": _NAME, "id": _TOPIC_ID}),
        "change_settings": (
            facts.ChangeSettings,
            {"name": _NAME, "settings": _SETTINGS, "version": _value(_or_none(_version))},
        ),
        "add_partitions": (
            facts.AddPartitions,
            {
                "name": _NAME,
                "first": _number(PARTITIONS_PER_TOPIC_MAX),
                "placement": _Form(_placement),
            },
        ),
        "change_targets": (
            facts.ChangeTargets,
            {"moves": _Form(_moves), "seen": _value(_seen, dict)},
        ),
    }
)
_KINDS_BY_TYPE: Final = {make: (kind, forms) for kind, (make, forms) in _KINDS.items()}
