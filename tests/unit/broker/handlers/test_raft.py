"""What other brokers say: taken, or refused without harm to the connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from penstock.broker.clients.session import Session
from penstock.broker.ground import Ground
from penstock.broker.handlers.raft import RaftCall, raft
from penstock.model.errors import InvalidRequest, MalformedFrame, UnknownCall
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.raft.membership import Node
from penstock.replication.disk.driver import Driver
from penstock.replication.parcels.parcel import Heartbeat, Parcel
from penstock.replication.parcels.wire import encode
from penstock.replication.peers.peering import Peering
from tests.kit.broker.running import ManualClock, running

ME = Node(1, 7)
STRANGER = Node(9, 9)


def parcel(receiver: Node, cluster_id: str = "") -> memoryview:
    heartbeat = Heartbeat(incarnation=1, version=1, is_whole=True, needs_whole=False, claims={})
    envelope, _ = encode(
        Parcel(sender=STRANGER, receiver=receiver, heartbeat=heartbeat, cluster_id=cluster_id)
    )
    return memoryview(envelope)


class Silence:
    """A session that counts the calls that are left without an answer."""

    def __init__(self) -> None:
        self.channel = self
        self.unanswered = 0

    def leave_unanswered(self) -> None:
        self.unanswered += 1


async def test_what_cannot_be_taken_is_a_typed_error() -> None:
    """R-REP-1: every byte from outside is checked."""
    peering = Peering(ME, lambda: "here", Driver(), ManualClock(), incarnation=1)
    session, nothing = Silence(), memoryview(b"")
    ground = cast(Ground, SimpleNamespace(receivers=[peering]))

    def serve(envelope: memoryview, payload: memoryview = nothing) -> None:
        raft(ground, RaftCall(cast(Session, session), calls.RAFT, 1, envelope, payload))

    with pytest.raises(InvalidRequest, match="of cluster elsewhere"):
        serve(parcel(ME, "elsewhere"))
    with pytest.raises(InvalidRequest, match="9/9 is not known"):
        serve(parcel(ME, "here"))
    with pytest.raises(MalformedFrame):
        serve(parcel(ME), memoryview(b"bytes that nobody announced"))
    with pytest.raises(MalformedFrame):
        serve(memoryview(b"garbage"))
    assert session.unanswered == 0
    serve(parcel(Node(1, 8)))
    assert session.unanswered == 1, "it is for another, and nobody needs an answer"


async def test_a_broker_on_its_own_has_nothing_to_do_with_others() -> None:
    async with running() as (_, client):
        channel = client.channel
        hello, _ = await channel.call(calls.HELLO, pb.HelloRequest())
        assert hello.broker_id == 1
        assert hello.directory > 0
        with pytest.raises(UnknownCall):
            await channel.call(calls.RAFT, pb.RaftRequest.FromString(bytes(parcel(ME))))
        await client.create("orders")
