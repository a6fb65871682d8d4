"""What every broker is to remember of a client that an operator has parked, or that goes on.

Told to all of them, since another may lead the client's partitions tomorrow. Not the streams, which
are told by themselves. The invariant: a broker that cannot be reached keeps nobody from the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from penstock.client.connection.routes import Routes
from penstock.model.errors import PenstockError
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import STEER_CLIENT, CallType, RequestT, ResponseT

logger = logging.getLogger(__name__)


async def forget_park(routes: Routes, client_name: str, group: str) -> None:
    """A client goes on that an operator had parked: no broker is to park it again for that."""
    try:
        await remember_park(routes, client_name, group, park=False)
    except PenstockError as error:
        logger.warning("Brokers may still take %s for parked: %s", client_name, error)


async def remember_park(routes: Routes, client_name: str, group: str, *, park: bool) -> None:
    request = pb.SteerClientRequest(client=client_name, park=park, group=group, only_remembers=True)
    await ask_all(routes, STEER_CLIENT, request)


async def ask_all(
    routes: Routes, call: CallType[RequestT, ResponseT], request: RequestT
) -> dict[int, ResponseT | PenstockError]:
    brokers = [broker.id for broker in (await routes.metadata()).brokers]

    async def ask(broker: int) -> ResponseT | PenstockError:
        try:
            channel = await routes.broker(broker)
            return (await channel.call(call, request))[0]
        except PenstockError as error:
            return error

    answers: Sequence[ResponseT | PenstockError] = await asyncio.gather(*map(ask, brokers))
    return dict(zip(brokers, answers, strict=True))
