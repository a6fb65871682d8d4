"""The cluster as a whole: described, and its partitions placed otherwise (R-REP-7)."""

from __future__ import annotations

from penstock.broker.bounds import check_count
from penstock.broker.call import Call
from penstock.broker.cluster.changes import ClusterChanges, Moved
from penstock.broker.context import Context
from penstock.model.errors import InvalidRequest
from penstock.model.ids import BrokerId, TopicPartition
from penstock.model.limits import MOVES_PER_CHANGE_MAX
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.facts import Replicas


async def describe_cluster(
    context: Context, call: Call[pb.DescribeClusterRequest]
) -> pb.DescribeClusterResponse:
    return await context.cluster.view.describe(moving_only=call.request.moving_only)


async def describe_broker(
    context: Context, call: Call[pb.DescribeBrokerRequest]
) -> pb.DescribeBrokerResponse:
    del call
    return context.cluster.view.describe_broker()


async def change_placement(
    context: Context, call: Call[pb.ChangePlacementRequest]
) -> pb.ChangePlacementResponse:
    if context.cluster.is_alone:
        raise InvalidRequest(
            "This broker is on its own, so there is nowhere to move anything: start a cluster with "
            "`penstock up --brokers 3`, or give the broker a registry."
        )
    response = pb.ChangePlacementResponse()
    for moved in await _changed(context, call.request):
        response.moves.add(
            topic=moved.name.topic,
            partition=moved.name.partition,
            before=moved.before,
            after=moved.after,
        )
    return response


async def _changed(context: Context, request: pb.ChangePlacementRequest) -> list[Moved]:
    changes: ClusterChanges = context.cluster.changes
    is_dry_run = request.dry_run
    match request.WhichOneof("change"):
        case "move":
            return await changes.move(_wanted(context, request.move), is_dry_run=is_dry_run)
        case "replication":
            topic, replicas = request.replication.topic, request.replication.replicas
            return await changes.replicate(topic, replicas, is_dry_run=is_dry_run)
        case "drain":
            onto = BrokerId(request.drain.onto) if request.drain.HasField("onto") else None
            broker = BrokerId(request.drain.broker)
            return await changes.drain(broker, onto, is_dry_run=is_dry_run)
        case "add":
            return await changes.add(BrokerId(request.add.broker), is_dry_run=is_dry_run)
        case "rebalance":
            return await changes.rebalance(is_dry_run=is_dry_run)
        case _:
            raise InvalidRequest("The request names no change of placement that is known here.")


def _wanted(
    context: Context, moves: pb.ChangePlacementRequest.Moves
) -> dict[TopicPartition, Replicas]:
    wanted: dict[TopicPartition, Replicas] = {}
    for move in moves.moves:
        replicas = tuple(map(BrokerId, move.replicas))
        if move.HasField("partition"):
            numbers = range(move.partition, move.partition + 1)
        else:
            numbers = range(len(context.topics.find(move.topic).partitions))
        for number in numbers:
            wanted[TopicPartition(move.topic, number)] = replicas
    if len(wanted) > MOVES_PER_CHANGE_MAX:
        raise InvalidRequest(
            f"The request moves {len(wanted)} partitions: {MOVES_PER_CHANGE_MAX} is the limit."
        )
    return wanted


async def elect_leaders(
    context: Context, call: Call[pb.ElectLeadersRequest]
) -> pb.ElectLeadersResponse:
    request = call.request
    elections = context.cluster.elections
    if not request.is_forwarded:
        check_count("partitions", len(request.partitions))
    named = [TopicPartition(name.topic, name.partition) for name in request.partitions]
    outcomes = await elections.elect(
        dict.fromkeys(named) or elections.all(),
        request.max_wait_ms / 1000,
        is_forwarded=request.is_forwarded,
    )
    response = pb.ElectLeadersResponse()
    for name, outcome in outcomes.items():
        response.results.add(topic=name.topic, partition=name.partition, outcome=outcome)
    return response
