"""What other brokers say: taken, or refused without harm to the connection."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidRequest, MalformedFrame
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.raft.membership import Node
from penstock.replication.parcel import Heartbeat, Parcel
from penstock.replication.wire import encode
from tests.support import running
from tests.unit.net.harness import until

STRANGER = Node(9, 9)


def parcel(receiver: Node, cluster_id: str = "") -> pb.RaftRequest:
    heartbeat = Heartbeat(incarnation=1, version=1, is_whole=True, needs_whole=False, claims={})
    envelope, _ = encode(
        Parcel(sender=STRANGER, receiver=receiver, heartbeat=heartbeat, cluster_id=cluster_id)
    )
    return pb.RaftRequest.FromString(envelope)


async def test_what_cannot_be_taken_is_a_typed_error_and_the_connection_goes_on() -> None:
    """R-REP-1: every byte from outside is checked."""
    async with running() as (_, client):
        channel = client.channel
        hello, _ = await channel.call(calls.HELLO, pb.HelloRequest())
        me = Node(hello.broker_id, hello.directory)
        assert me.directory > 0
        with pytest.raises(InvalidRequest, match="of cluster elsewhere"):
            await channel.call(calls.RAFT, parcel(me, "elsewhere"))
        with pytest.raises(InvalidRequest, match="9/9 is not known"):
            await channel.call(calls.RAFT, parcel(me, hello.cluster_id))
        with pytest.raises(MalformedFrame):
            await channel.call(calls.RAFT, parcel(me), [b"bytes that nobody announced"])
        await client.create("orders")


async def test_what_is_taken_is_not_answered() -> None:
    async with running() as (_, client):
        channel = client.channel
        envelope = parcel(Node(1, 1)).SerializeToString()
        channel.tell(calls.RAFT.number, envelope)
        await channel.call(calls.HELLO, pb.HelloRequest())
        await until(lambda: channel.pending_calls == 0)
