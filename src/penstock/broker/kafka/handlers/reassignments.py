"""Moving partitions and their leaders as Kafka's tools ask for it (KIP-455, KIP-460; R-REP-7).

What is asked for becomes a target in the registry, and the partitions' leaders do the rest, as for
every other way of asking. There are no unclean elections: see docs/divergence.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.broker.bounds import check_count
from penstock.broker.cluster import elections
from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.lookup import check_once, repeated
from penstock.broker.partitions.leaders import NO_BROKER
from penstock.model.errors import InvalidReplication, NotLeader, PenstockError
from penstock.model.ids import BrokerId, TopicPartition
from penstock.protocol.kafka.errors import ErrorCode, code_of
from penstock.protocol.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from penstock.protocol.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from penstock.protocol.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from penstock.registry.facts import Replicas
from penstock.registry.image import TopicImage

_PREFERRED: Final = 0
_ERRORS: Final = {
    elections.ELECTED: (ErrorCode.NONE, None),
    elections.NOT_NEEDED: (
        ErrorCode.ELECTION_NOT_NEEDED,
        "The preferred broker leads the partition already.",
    ),
    elections.NOT_AVAILABLE: (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "The preferred broker is dead, or does not have everything.",
    ),
    elections.UNKNOWN: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition."),
    elections.TIMED_OUT: (
        ErrorCode.REQUEST_TIMED_OUT,
        "The preferred broker does not lead yet: it may come to.",
    ),
}


class _Ongoing(NamedTuple):
    """A partition that is not where it should be."""

    adding: Replicas
    removing: Replicas
    staying: Replicas
    """Who has a copy that counts, the leader first: what the target is if the move is called off,
    since until all newcomers have everything none of them votes."""


def _ongoing(context: Context, topic: TopicImage, number: int) -> _Ongoing | None:
    """None if it is where it should be, or nobody knows."""
    told = context.leaders.told(topic, number)
    if told is None:
        return None
    target = topic.partitions[number].replicas
    voters = {BrokerId(node.broker) for node in told.told.membership.voters}
    adding = tuple(broker for broker in target if broker not in voters)
    removing = tuple(sorted(voters.difference(target)))
    if not adding and not removing:
        return None
    leader = BrokerId(told.node.broker)
    return _Ongoing(adding, removing, (leader, *sorted(voters - {leader})))


async def alter_partition_reassignments(
    context: Context, call: Call
) -> AlterPartitionReassignmentsResponse:
    request: AlterPartitionReassignmentsRequest = call.request
    check_count("partitions", sum(len(topic.partitions) for topic in request.topics))
    twice = repeated(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    wanted: dict[TopicPartition, Replicas] = {}
    results: dict[TopicPartition, ReassignablePartitionResponse] = {}
    responses = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            name = TopicPartition(topic.name, partition.partition_index)
            result = ReassignablePartitionResponse(name.partition)
            partitions.append(result)
            try:
                check_once(name, twice)
                replicas = _wanted(context, name, partition, request)
                if replicas is None:
                    result.error_code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
                    result.error_message = f"{name} is where it should be: nothing is called off."
                    continue
                context.cluster.changes.check(name, replicas)
            except PenstockError as error:
                _fill(result, error)
            else:
                wanted[name], results[name] = replicas, result
        responses.append(ReassignableTopicResponse(topic.name, partitions))
    try:
        await context.cluster.changes.move(wanted)
    except PenstockError as error:
        for result in results.values():
            _fill(result, error)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=responses,
    )


def _wanted(
    context: Context,
    name: TopicPartition,
    partition: ReassignablePartition,
    request: AlterPartitionReassignmentsRequest,
) -> Replicas | None:
    """Where the partition should be; None if a move is to be called off and there is none."""
    topic = context.topics.find(name.topic)
    target = context.cluster.changes.target(name)
    if partition.replicas is None:
        if context.leaders.told(topic, name.partition) is None:
            raise NotLeader(f"{name} has no leader now, who would know where it is: try again.")
        ongoing = _ongoing(context, topic, name.partition)
        return None if ongoing is None else ongoing.staying
    replicas = tuple(map(BrokerId, partition.replicas))
    if len(replicas) != len(target) and not request.allow_replication_factor_change:
        raise InvalidReplication(
            f"{name} has {len(target)} replicas and would have {len(replicas)}, which the request "
            "does not allow."
        )
    return replicas


def _fill(result: ReassignablePartitionResponse, error: PenstockError) -> None:
    result.error_code = code_of(error)
    result.error_message = error.message


def list_partition_reassignments(
    context: Context, call: Call
) -> ListPartitionReassignmentsResponse:
    request: ListPartitionReassignmentsRequest = call.request
    topics = context.registry.image.topics
    if request.topics is None:
        asked: list[tuple[str, Sequence[int]]] = [
            (topic.name, range(len(topic.partitions))) for topic in topics.values()
        ]
    else:
        asked = [(topic.name, sorted(set(topic.partition_indexes))) for topic in request.topics]
        check_count("partitions", sum(len(numbers) for _, numbers in asked))
    found = []
    for name, numbers in asked:
        topic = topics.get(name)
        if topic is None or topic.deleting:
            continue
        partitions = [
            OngoingPartitionReassignment(
                partition_index=number,
                replicas=(*topic.partitions[number].replicas, *ongoing.removing),
                adding_replicas=ongoing.adding,
                removing_replicas=ongoing.removing,
            )
            for number in numbers
            if 0 <= number < len(topic.partitions)
            and (ongoing := _ongoing(context, topic, number)) is not None
        ]
        if partitions:
            found.append(OngoingTopicReassignment(name, partitions))
    return ListPartitionReassignmentsResponse(topics=found)


async def elect_leaders(context: Context, call: Call) -> ElectLeadersResponse:
    request: ElectLeadersRequest = call.request
    of_all = request.topic_partitions is None
    names = context.cluster.elections.all() if of_all else _named(request)
    check_count("partitions", 0 if of_all else len(names))
    if request.election_type == _PREFERRED:
        wait_s = max(request.timeout_ms, 0) / 1000
        outcomes = await context.cluster.elections.elect(names, wait_s)
        results = {name: _ERRORS[outcome] for name, outcome in outcomes.items()}
    else:
        results = {name: _unclean(context, name) for name in names}
    by_topic: dict[str, list[PartitionResult]] = {}
    for name in names:
        code, message = results[name]
        if not (of_all and code == ErrorCode.ELECTION_NOT_NEEDED):
            result = PartitionResult(name.partition, code, message)
            by_topic.setdefault(name.topic, []).append(result)
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic, partitions) for topic, partitions in by_topic.items()
        ]
    )


def _named(request: ElectLeadersRequest) -> list[TopicPartition]:
    names = dict.fromkeys(
        TopicPartition(topic.topic, number)
        for topic in request.topic_partitions or ()
        for number in topic.partitions
    )
    return list(names)


def _unclean(context: Context, name: TopicPartition) -> tuple[ErrorCode, str | None]:
    """Of a partition without a leader, a majority is gone: whoever is left may lack messages that
    were acknowledged, and never leads."""
    topic = context.registry.image.topics.get(name.topic)
    if topic is None or topic.deleting or not 0 <= name.partition < len(topic.partitions):
        return _ERRORS[elections.UNKNOWN]
    if context.leaders.of(topic, name.partition).broker != NO_BROKER:
        return ErrorCode.ELECTION_NOT_NEEDED, "The partition has a leader."
    return (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Most of the partition's brokers are gone: bring one back. A broker that may lack messages "
        "never leads.",
    )
