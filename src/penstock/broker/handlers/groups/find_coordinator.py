"""FindCoordinator: which broker to ask about groups, which about staged writes, and which about
delayed messages (R-CORE-5)."""

from __future__ import annotations

from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.coordination.delay.records import DELAYED_TOPIC
from penstock.coordination.staging.records import WRITES_TOPIC
from penstock.model.errors import InvalidRequest
from penstock.protocol import penstock_pb2 as pb


async def find_coordinator(
    context: Context, call: Call[pb.FindCoordinatorRequest]
) -> pb.FindCoordinatorResponse:
    leaders = context.leaders
    match call.request.kind:
        case pb.FindCoordinatorRequest.KIND_GROUPS:
            broker = await context.groups_client.coordinator()
        case pb.FindCoordinatorRequest.KIND_STAGED_WRITES:
            broker = await leaders.of_internal(WRITES_TOPIC, context.staging.make_topics)
        case pb.FindCoordinatorRequest.KIND_DELAYED:
            broker = await leaders.of_internal(DELAYED_TOPIC, context.delivery.delays.make_topic)
        case _:
            raise InvalidRequest(f"There is no coordinator of kind {call.request.kind}.")
    return pb.FindCoordinatorResponse(broker=broker.id, address=broker.address)
