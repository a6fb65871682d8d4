"""Facts as JSON, for znodes and journals: written compactly, read as if an enemy had written them.

Each document says its format; a later one is refused rather than misread. The invariant: what is
read back is what was written, and any other bytes are CorruptFacts that says what is wrong. A topic
names each (broker, directory) once, and its partitions name them by their place in that list, so
that the largest topic fits into one znode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from penstock.model.errors import CorruptFacts, PenstockError
from penstock.model.ids import BrokerId, TopicId, check_topic_name
from penstock.model.limits import (
    ADDRESS_LENGTH_MAX,
    BROKER_ID_MAX,
    DELETED_PARTITIONS_MAX,
    DELETED_TOPICS_MAX,
    HOST_LENGTH_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    TOPICS_MAX,
)
from penstock.model.removal import DeletedPartition, DeletedTopic
from penstock.model.topic_config import INT64_MAX, TopicConfig, with_settings
from penstock.net.address import parse_address
from penstock.raft.membership import Node
from penstock.registry.facts import Facts, Replicas
from penstock.registry.image import BrokerImage, PartitionImage, TopicImage, placed

FORMAT: Final = 1
_ID_DIGITS: Final = 32
_HEXADECIMAL: Final = frozenset("0123456789abcdef")
# A broker is in a replica list once; more than this many no cluster has.
_REPLICAS_MAX: Final = 100
_SETTINGS_MAX: Final = 1_000

Read = TypeVar("Read")


def encode_broker(broker: BrokerImage) -> bytes:
    return _document(_broker_fields(broker))


def decode_broker(data: bytes, what: str) -> BrokerImage:
    return _decoded(data, what, _broker)


def encode_topic(topic: TopicImage) -> bytes:
    return _document(_topic_fields(topic))


def decode_topic(data: bytes, what: str, version: int) -> TopicImage:
    return _decoded(data, what, lambda fields: _topic(fields, version))


def encode_deletions(deletions: Iterable[DeletedTopic]) -> bytes:
    return _document({"deleted_topics": [_deletion_fields(each) for each in deletions]})


def decode_deletions(data: bytes, what: str) -> tuple[DeletedTopic, ...]:
    return _decoded(data, what, _deletions)


def encode_cluster(cluster_id: str, drained: Iterable[BrokerId]) -> bytes:
    return _document({"cluster_id": cluster_id, "drained": sorted(drained)})


def decode_cluster(data: bytes, what: str) -> tuple[str, frozenset[BrokerId]]:
    return _decoded(data, what, lambda fields: (_cluster_id(fields), _drained(fields)))


def encode_producer_ids(next_producer_id: int) -> bytes:
    return _document({"next_producer_id": next_producer_id})


def decode_producer_ids(data: bytes, what: str) -> int:
    return _decoded(data, what, lambda fields: _number(fields, "next_producer_id", INT64_MAX))


def encode_facts(facts: Facts) -> bytes:
    """Everything, as one document."""
    return _document(
        {
            "cluster_id": facts.cluster_id,
            "version": facts.version,
            "brokers": [
                {**_broker_fields(broker), "is_alive": broker.is_alive}
                for broker in facts.brokers.values()
            ],
            "drained": sorted(facts.drained),
            "topics": [
                {**_topic_fields(topic), "version": topic.version}
                for topic in facts.topics.values()
            ],
            "deleted_topics": [_deletion_fields(each) for each in facts.deleted_topics],
            "next_producer_id": facts.next_producer_id,
        }
    )


def decode_facts(data: bytes, what: str) -> Facts:
    def read(fields: Mapping[str, Any]) -> Facts:
        brokers = {
            broker.id: broker for broker in map(_broker, _list(fields, "brokers", BROKER_ID_MAX))
        }
        topics = {
            topic.name: topic
            for topic in (
                _topic(entry, _number(entry, "version", INT64_MAX))
                for entry in _list(fields, "topics", TOPICS_MAX)
            )
        }
        return Facts(
            cluster_id=_cluster_id(fields),
            version=_number(fields, "version", INT64_MAX),
            brokers=brokers,
            drained=_drained(fields),
            topics=topics,
            deleted_topics=_deletions(fields),
            next_producer_id=_number(fields, "next_producer_id", INT64_MAX),
        )

    return _decoded(data, what, read)


# --- documents ---------------------------------------------------------------------------------


def _document(fields: Mapping[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, **fields}, separators=(",", ":")).encode()


def _decoded(data: bytes, what: str, read: Callable[[Mapping[str, Any]], Read]) -> Read:
    """What the document says. It is called `what` if it cannot be understood."""
    try:
        fields = json.loads(data)
        if _number(fields, "format", INT64_MAX) > FORMAT:
            raise ValueError(f"format {fields['format']} is of a later version of Penstock")
        return read(fields)
    except PenstockError as error:
        reason = error.message.rstrip(".")
    except RecursionError:
        reason = "it is nested too deeply"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # Of hostile bytes no more than a glance goes into a log.
        reason = f"{type(error).__name__}: {error}"[:200]
    raise CorruptFacts(f"{what} cannot be understood ({reason}): restore it or remove it.")


def _number(fields: Mapping[str, Any], name: str, most: int) -> int:
    return _checked_number(fields[name], name, most)


def _checked_number(value: object, name: str, most: int) -> int:
    # True is an int to Python.
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} is no number from 0 to {most}")
    return value


def _text(fields: Mapping[str, Any], name: str, length_max: int) -> str:
    value = fields[name]
    if not isinstance(value, str) or len(value) > length_max or not value.isprintable():
        raise ValueError(f"{name} is no text of up to {length_max} printable characters")
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields[name]
    if not isinstance(value, bool):
        raise ValueError(f"{name} is neither true nor false")
    return value


def _list(fields: Mapping[str, Any], name: str, length_max: int) -> list[Any]:
    value = fields[name]
    if not isinstance(value, list) or len(value) > length_max:
        raise ValueError(f"{name} is no list of up to {length_max} entries")
    return value


def _hexadecimal(text: object, digits: int) -> str:
    if not isinstance(text, str) or len(text) != digits or not set(text) <= _HEXADECIMAL:
        raise ValueError(f"an id is not {digits} hexadecimal digits")
    return text


# --- brokers -----------------------------------------------------------------------------------


def _broker_fields(broker: BrokerImage) -> dict[str, Any]:
    return {
        "id": broker.id,
        "directory": f"{broker.directory:016x}",
        "address": broker.address,
        "host": broker.host,
    }


def _broker(fields: Mapping[str, Any]) -> BrokerImage:
    address = _text(fields, "address", ADDRESS_LENGTH_MAX)
    parse_address(address)
    return BrokerImage(
        id=BrokerId(_number(fields, "id", BROKER_ID_MAX)),
        directory=int(_hexadecimal(fields["directory"], 16), 16),
        address=address,
        host=_text(fields, "host", HOST_LENGTH_MAX),
        is_alive=_flag(fields, "is_alive") if "is_alive" in fields else True,
    )


def _cluster_id(fields: Mapping[str, Any]) -> str:
    return _text(fields, "cluster_id", HOST_LENGTH_MAX)


def _drained(fields: Mapping[str, Any]) -> frozenset[BrokerId]:
    return frozenset(_broker_ids(_list(fields, "drained", BROKER_ID_MAX)))


def _broker_ids(values: Iterable[object]) -> Replicas:
    return tuple(BrokerId(_checked_number(each, "a broker id", BROKER_ID_MAX)) for each in values)


# --- topics ------------------------------------------------------------------------------------


def _topic_fields(topic: TopicImage) -> dict[str, Any]:
    voters = (voter for partition in topic.partitions for voter in partition.voters)
    places = {node: place for place, node in enumerate(dict.fromkeys(voters))}
    return {
        "name": topic.name,
        "id": topic.id,
        "settings": dict(topic.settings),
        "deleting": topic.deleting,
        "nodes": [[node.broker, f"{node.directory:016x}"] for node in places],
        "partitions": [
            [list(partition.replicas), [places[voter] for voter in partition.voters]]
            for partition in topic.partitions
        ],
    }


def _topic(fields: Mapping[str, Any], version: int) -> TopicImage:
    nodes = [_node(entry) for entry in _list(fields, "nodes", PARTITIONS_PER_TOPIC_MAX)]
    partitions = tuple(
        _partition(entry, nodes) for entry in _list(fields, "partitions", PARTITIONS_PER_TOPIC_MAX)
    )
    if not partitions:
        raise ValueError("a topic has no partitions")
    return TopicImage(
        name=check_topic_name(str(fields["name"])),
        id=TopicId(_hexadecimal(fields["id"], _ID_DIGITS)),
        partitions=partitions,
        settings=_settings(fields["settings"]),
        deleting=_flag(fields, "deleting"),
        version=version,
    )


def _node(entry: object) -> Node:
    broker, directory = _pair(entry)
    return Node(
        _checked_number(broker, "a broker id", BROKER_ID_MAX), int(_hexadecimal(directory, 16), 16)
    )


def _partition(entry: object, nodes: list[Node]) -> PartitionImage:
    brokers, places = _pair(entry)
    if not (isinstance(brokers, list) and isinstance(places, list)):
        raise TypeError("a partition is not two lists")
    if not 0 < len(brokers) <= _REPLICAS_MAX or len(set(brokers)) != len(brokers):
        raise ValueError("a partition has no replicas, too many, or one twice")
    if not 0 < len(places) <= _REPLICAS_MAX or len(set(places)) != len(places):
        raise ValueError("a partition began with no voters, too many, or one twice")
    most = len(nodes) - 1
    voters = tuple(nodes[_checked_number(place, "a voter's place", most)] for place in places)
    return placed(_broker_ids(brokers), voters)


def _pair(entry: object) -> tuple[Any, Any]:
    if not isinstance(entry, list) or len(entry) != 2:
        raise TypeError("an entry is not a list of two")
    return entry[0], entry[1]


def _settings(values: object) -> dict[str, str]:
    if not isinstance(values, dict) or len(values) > _SETTINGS_MAX:
        raise TypeError("the settings are no object, or too many")
    if not all(isinstance(value, str) for value in values.values()):
        raise TypeError("a setting is no text")
    with_settings(TopicConfig(), values)
    return values


# --- deletions ---------------------------------------------------------------------------------


def _deletion_fields(deletion: DeletedTopic) -> dict[str, Any]:
    return {
        "name": deletion.name,
        "id": deletion.topic_id,
        "at_ms": deletion.at_ms,
        "partitions": deletion.partitions,
    }


def _deletions(fields: Mapping[str, Any]) -> tuple[DeletedTopic, ...]:
    return tuple(_deletion(each) for each in _list(fields, "deleted_topics", DELETED_TOPICS_MAX))


def _deletion(fields: Mapping[str, Any]) -> DeletedTopic:
    partitions = []
    for entry in _list(fields, "partitions", DELETED_PARTITIONS_MAX):
        number, start_offset, end_offset = (
            _checked_number(value, "a deleted partition's entry", INT64_MAX) for value in entry
        )
        partitions.append(DeletedPartition(number, start_offset, end_offset))
    return DeletedTopic(
        name=check_topic_name(str(fields["name"])),
        topic_id=_hexadecimal(fields["id"], _ID_DIGITS),
        at_ms=_number(fields, "at_ms", INT64_MAX),
        partitions=tuple(partitions),
    )
