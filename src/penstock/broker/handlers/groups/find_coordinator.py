"""FindCoordinator: which broker to ask about groups, which about staged writes, and which about
delayed messages (R-CORE-5)."""

from __future__ import annotations

from penstock.broker.context import Context
from penstock.broker.handlers.groups.coordinators import (
    delay_coordinator,
    group_coordinator,
    staging_coordinator,
)
from penstock.model.errors import InvalidRequest
from penstock.protocol import penstock_pb2 as pb


async def find_coordinator(
    context: Context, request: pb.FindCoordinatorRequest
) -> pb.FindCoordinatorResponse:
    match request.kind:
        case pb.FindCoordinatorRequest.KIND_GROUPS:
            broker = await group_coordinator(context)
        case pb.FindCoordinatorRequest.KIND_STAGED_WRITES:
            broker = await staging_coordinator(context)
        case pb.FindCoordinatorRequest.KIND_DELAYED:
            broker = await delay_coordinator(context)
        case _:
            raise InvalidRequest(f"There is no coordinator of kind {request.kind}.")
    return pb.FindCoordinatorResponse(broker=broker.id, address=broker.address)
