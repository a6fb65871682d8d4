"""Facts as JSON, for znodes and journals: written compactly, read as if an enemy had written them.

Each document says its format; a later one is refused rather than misread. The invariant: what is
read back is what was written, and any other bytes are CorruptFacts that says what is wrong. A topic
names each (broker, directory) once, and its partitions name them by their place in that list, so
that the largest topic fits into one znode.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from penstock.model.ids import BrokerId, TopicId, check_topic_name
from penstock.model.limits import (
    ADDRESS_LENGTH_MAX,
    BROKER_ID_MAX,
    DELETED_PARTITIONS_MAX,
    DELETED_TOPICS_MAX,
    FIRST_TERM_MAX,
    HOST_LENGTH_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    TOPICS_MAX,
)
from penstock.model.removal import DeletedPartition, DeletedTopic
from penstock.model.topic_config import INT64_MAX, TopicConfig, with_settings
from penstock.net.address import parse_address
from penstock.raft.membership import Node
from penstock.registry.facts import Facts, Replicas
from penstock.registry.image import (
    EVERY_BROKER,
    NO_BROKER_SETTINGS,
    BrokerImage,
    BrokerSettings,
    PartitionImage,
    TopicImage,
    placed,
)
from penstock.registry.json_fields import (
    Fields,
    checked_number,
    decoded,
    document,
    flag,
    hexadecimal,
    list_of,
    number,
    pair,
    text_of,
)

ID_DIGITS: Final = 32
# A broker is in a replica list once; more than this many no cluster has.
_REPLICAS_MAX: Final = 100
_SETTINGS_MAX: Final = 1_000


def encode_broker(broker: BrokerImage) -> bytes:
    return document(broker_fields(broker))


def decode_broker(data: bytes, what: str) -> BrokerImage:
    return decoded(data, what, read_broker)


def encode_topic(topic: TopicImage) -> bytes:
    return document(_topic_fields(topic))


def decode_topic(data: bytes, what: str, version: int) -> TopicImage:
    return decoded(data, what, lambda fields: _topic(fields, version))


def encode_deletions(deletions: Iterable[DeletedTopic], first_term: int = 0) -> bytes:
    fields = {"deleted_topics": [deletion_fields(each) for each in deletions]}
    return document(fields | first_term_fields(first_term))


def decode_deletions(data: bytes, what: str) -> tuple[tuple[DeletedTopic, ...], int]:
    """The latest, and which term topics begin with since."""
    return decoded(data, what, lambda fields: (_deletions(fields), read_first_term(fields)))


def encode_cluster(
    cluster_id: str,
    drained: Iterable[BrokerId],
    broker_settings: BrokerSettings = NO_BROKER_SETTINGS,
) -> bytes:
    fields = {"cluster_id": cluster_id, "drained": sorted(drained)}
    return document(fields | broker_settings_fields(broker_settings))


def decode_cluster(data: bytes, what: str) -> tuple[str, frozenset[BrokerId], BrokerSettings]:
    return decoded(
        data,
        what,
        lambda fields: (read_cluster_id(fields), _drained(fields), read_broker_settings(fields)),
    )


def encode_producer_ids(next_producer_id: int) -> bytes:
    return document({"next_producer_id": next_producer_id})


def decode_producer_ids(data: bytes, what: str) -> int:
    return decoded(data, what, lambda fields: number(fields, "next_producer_id", INT64_MAX))


def encode_facts(facts: Facts) -> bytes:
    """Everything, as one document."""
    return document(facts_fields(facts))


def decode_facts(data: bytes, what: str) -> Facts:
    return decoded(data, what, read_facts)


def facts_fields(facts: Facts) -> dict[str, Any]:
    return {
        "cluster_id": facts.cluster_id,
        "version": facts.version,
        "brokers": [
            {**broker_fields(broker), "is_alive": broker.is_alive}
            for broker in facts.brokers.values()
        ],
        "drained": sorted(facts.drained),
        "topics": [
            {**_topic_fields(topic), "version": topic.version} for topic in facts.topics.values()
        ],
        "deleted_topics": [deletion_fields(each) for each in facts.deleted_topics],
        "next_producer_id": facts.next_producer_id,
        **first_term_fields(facts.first_term),
        **broker_settings_fields(facts.broker_settings),
    }


def read_facts(fields: Fields) -> Facts:
    brokers = {
        broker.id: broker for broker in map(read_broker, list_of(fields, "brokers", BROKER_ID_MAX))
    }
    topics = {
        topic.name: topic
        for topic in (
            _topic(entry, number(entry, "version", INT64_MAX))
            for entry in list_of(fields, "topics", TOPICS_MAX)
        )
    }
    return Facts(
        cluster_id=read_cluster_id(fields),
        version=number(fields, "version", INT64_MAX),
        brokers=brokers,
        drained=_drained(fields),
        broker_settings=read_broker_settings(fields),
        topics=topics,
        deleted_topics=_deletions(fields),
        first_term=read_first_term(fields),
        next_producer_id=number(fields, "next_producer_id", INT64_MAX),
    )


# --- brokers -----------------------------------------------------------------------------------


def broker_fields(broker: BrokerImage) -> dict[str, Any]:
    return {
        "id": broker.id,
        "directory": f"{broker.directory:016x}",
        "place": f"{broker.place:016x}",
        "address": broker.address,
        "host": broker.host,
    }


def read_broker(fields: Fields) -> BrokerImage:
    address = text_of(fields, "address", ADDRESS_LENGTH_MAX)
    parse_address(address)
    return BrokerImage(
        id=BrokerId(number(fields, "id", BROKER_ID_MAX)),
        directory=int(hexadecimal(fields["directory"], 16), 16),
        address=address,
        host=text_of(fields, "host", HOST_LENGTH_MAX),
        place=int(hexadecimal(fields["place"], 16), 16) if "place" in fields else 0,
        is_alive=flag(fields, "is_alive") if "is_alive" in fields else True,
    )


def read_cluster_id(fields: Fields) -> str:
    return text_of(fields, "cluster_id", HOST_LENGTH_MAX)


def _drained(fields: Fields) -> frozenset[BrokerId]:
    return frozenset(_broker_ids(list_of(fields, "drained", BROKER_ID_MAX)))


def _broker_ids(values: Iterable[object]) -> Replicas:
    return tuple(BrokerId(checked_number(each, "a broker id", BROKER_ID_MAX)) for each in values)


def broker_settings_fields(settings: BrokerSettings) -> dict[str, Any]:
    """Nothing where nothing is set, which earlier versions understand."""
    if not settings:
        return {}
    return {"broker_settings": {broker: dict(each) for broker, each in settings.items()}}


def read_broker_settings(fields: Fields) -> BrokerSettings:
    settings = fields.get("broker_settings", {})
    if not isinstance(settings, dict) or len(settings) > _SETTINGS_MAX:
        raise TypeError("the settings of brokers are no object, or too many")
    return {read_broker_name(broker): read_settings(each) for broker, each in settings.items()}


def read_broker_name(name: object) -> str:
    """A broker's id as text, or EVERY_BROKER."""
    if name != EVERY_BROKER:
        checked_number(int(str(name)), "a broker id", BROKER_ID_MAX)
    return str(name)


# --- topics ------------------------------------------------------------------------------------


def _topic_fields(topic: TopicImage) -> dict[str, Any]:
    voters = (voter for partition in topic.partitions for voter in partition.voters)
    places = {node: place for place, node in enumerate(dict.fromkeys(voters))}
    return {
        "name": topic.name,
        "id": topic.id,
        "settings": dict(topic.settings),
        "deleting": topic.deleting,
        "nodes": [node_entry(node) for node in places],
        "partitions": [
            [list(partition.replicas), [places[voter] for voter in partition.voters]]
            for partition in topic.partitions
        ],
        **first_term_fields(topic.first_term),
    }


def _topic(fields: Fields, version: int) -> TopicImage:
    nodes = [read_node(entry) for entry in list_of(fields, "nodes", PARTITIONS_PER_TOPIC_MAX)]
    partitions = tuple(
        _partition(entry, nodes)
        for entry in list_of(fields, "partitions", PARTITIONS_PER_TOPIC_MAX)
    )
    if not partitions:
        raise ValueError("a topic has no partitions")
    return TopicImage(
        name=check_topic_name(str(fields["name"])),
        id=TopicId(hexadecimal(fields["id"], ID_DIGITS)),
        partitions=partitions,
        settings=read_settings(fields["settings"]),
        deleting=flag(fields, "deleting"),
        version=version,
        first_term=read_first_term(fields),
    )


def first_term_fields(first_term: int) -> dict[str, int]:
    """Nothing where no election came before, as earlier versions have it."""
    return {"first_term": first_term} if first_term else {}


def read_first_term(fields: Fields) -> int:
    return number(fields, "first_term", FIRST_TERM_MAX) if "first_term" in fields else 0


def node_entry(node: Node) -> list[Any]:
    return [node.broker, f"{node.directory:016x}"]


def read_node(entry: object) -> Node:
    broker, directory = pair(entry)
    return Node(
        checked_number(broker, "a broker id", BROKER_ID_MAX), int(hexadecimal(directory, 16), 16)
    )


def _partition(entry: object, nodes: list[Node]) -> PartitionImage:
    brokers, places = pair(entry)
    replicas = read_replicas(brokers)
    if not isinstance(places, list):
        raise TypeError("a partition's voters are no list")
    if not 0 < len(places) <= _REPLICAS_MAX or len(set(places)) != len(places):
        raise ValueError("a partition began with no voters, too many, or one twice")
    most = len(nodes) - 1
    voters = tuple(nodes[checked_number(place, "a voter's place", most)] for place in places)
    return placed(replicas, voters)


def read_replicas(brokers: object) -> Replicas:
    if not isinstance(brokers, list):
        raise TypeError("replicas are no list")
    if not 0 < len(brokers) <= _REPLICAS_MAX or len(set(brokers)) != len(brokers):
        raise ValueError("a partition has no replicas, too many, or one twice")
    return _broker_ids(brokers)


def read_settings(values: object) -> dict[str, str]:
    if not isinstance(values, dict) or len(values) > _SETTINGS_MAX:
        raise TypeError("the settings are no object, or too many")
    if not all(isinstance(value, str) for value in values.values()):
        raise TypeError("a setting is no text")
    with_settings(TopicConfig(), values)
    return values


# --- deletions ---------------------------------------------------------------------------------


def deletion_fields(deletion: DeletedTopic) -> dict[str, Any]:
    return {
        "name": deletion.name,
        "id": deletion.topic_id,
        "at_ms": deletion.at_ms,
        "partitions": deletion.partitions,
    }


def _deletions(fields: Fields) -> tuple[DeletedTopic, ...]:
    return tuple(
        read_deletion(each) for each in list_of(fields, "deleted_topics", DELETED_TOPICS_MAX)
    )


def read_deletion(fields: Fields) -> DeletedTopic:
    partitions = []
    for entry in list_of(fields, "partitions", DELETED_PARTITIONS_MAX):
        partition, start_offset, end_offset = (
            checked_number(value, "a deleted partition's entry", INT64_MAX) for value in entry
        )
        partitions.append(DeletedPartition(partition, start_offset, end_offset))
    return DeletedTopic(
        name=check_topic_name(str(fields["name"])),
        topic_id=hexadecimal(fields["id"], ID_DIGITS),
        at_ms=number(fields, "at_ms", INT64_MAX),
        partitions=tuple(partitions),
    )
