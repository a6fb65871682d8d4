"""Hello: the sides introduce themselves. (Ping is answered by the channel.)"""

from __future__ import annotations

import logging

from penstock import __version__
from penstock.broker.context import Context
from penstock.broker.session import Session
from penstock.model.limits import CLIENT_NAME_LENGTH_MAX
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import parse

logger = logging.getLogger(__name__)


def hello(
    context: Context,
    session: Session,
    message_id: int,
    envelope: memoryview,
    payload: memoryview,
) -> None:
    del payload
    request = parse(pb.HelloRequest, envelope)
    name = request.client_name[:CLIENT_NAME_LENGTH_MAX]
    logger.debug("%s says hello: %r", session.channel.connection.peer, name)
    response = pb.HelloResponse(
        cluster_id=context.registry.image.cluster_id,
        broker_id=context.config.broker_id,
        software=f"penstock/{__version__}",
        frame_bytes_max=context.config.frame_bytes_max,
        directory=context.peers.me.directory,
    )
    session.channel.answer(message_id, pb.CALL_HELLO, response.SerializeToString())
