"""Hello: the sides introduce themselves. (Ping is answered by the channel.)"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock import __version__
from penstock.broker.clients.clients import Clients
from penstock.broker.clients.session import Session
from penstock.model.limits import CLIENT_NAME_LENGTH_MAX
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import parse
from penstock.raft.membership import Node

logger = logging.getLogger(__name__)


class Hello:
    """Says who this broker is, also to those who come before it is ready."""

    def __init__(
        self, me: Node, frame_bytes_max: int, cluster_id: Callable[[], str], clients: Clients
    ) -> None:
        """cluster_id: empty as long as it is not known."""
        self._me = me
        self._frame_bytes_max = frame_bytes_max
        self._cluster_id = cluster_id
        self._clients = clients

    def serve(
        self, session: Session, message_id: int, envelope: memoryview, payload: memoryview
    ) -> None:
        del payload
        request = parse(pb.HelloRequest, envelope)
        name = request.client_name[:CLIENT_NAME_LENGTH_MAX]
        logger.debug("%s says hello: %r", session.channel.connection.peer, name)
        software = request.software[:CLIENT_NAME_LENGTH_MAX]
        client = self._clients.introduce(session, name, software)
        response = pb.HelloResponse(
            cluster_id=self._cluster_id(),
            broker_id=self._me.broker,
            software=f"penstock/{__version__}",
            frame_bytes_max=self._frame_bytes_max,
            directory=self._me.directory,
            client=client.id,
        )
        session.channel.answer(message_id, pb.CALL_HELLO, response.SerializeToString())
