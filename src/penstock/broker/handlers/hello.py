"""Hello: the sides introduce themselves. (Ping is answered by the channel.)"""

from __future__ import annotations

import logging

from penstock import __version__
from penstock.broker.call import Call
from penstock.broker.ground import Ground
from penstock.model.limits import CLIENT_NAME_LENGTH_MAX
from penstock.protocol import penstock_pb2 as pb

logger = logging.getLogger(__name__)


def hello(ground: Ground, call: Call[pb.HelloRequest]) -> pb.HelloResponse:
    """Also to those who come before this broker is ready."""
    name = call.request.client_name[:CLIENT_NAME_LENGTH_MAX]
    logger.debug("%s says hello: %r", call.client_host, name)
    software = call.request.software[:CLIENT_NAME_LENGTH_MAX]
    client = ground.clients.introduce(call.session, name, software)
    return pb.HelloResponse(
        cluster_id=ground.cluster_id,
        broker_id=ground.me.broker,
        software=f"penstock/{__version__}",
        frame_bytes_max=ground.config.frame_bytes_max,
        directory=ground.me.directory,
        client=client.id,
    )
