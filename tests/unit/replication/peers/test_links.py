"""Connections between brokers: who is up, what is sent, and what becomes of peers that are slow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from penstock.model.ids import PartitionId, TopicId
from penstock.model.limits import MIB, PEER_QUEUE_BYTES_MAX
from penstock.net.address import TcpAddress
from penstock.net.channel import Channel
from penstock.net.connection import Connection, Pause
from penstock.net.server import Server
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import HELLO, RAFT
from penstock.raft.membership import Node
from penstock.raft.messages import AppendRequest
from penstock.replication.parcels.parcel import Heartbeat, Letter, Parcel
from penstock.replication.parcels.wire import decode
from penstock.replication.peers.links import PeerLinks
from tests.kit.net.sockets import until

ME, PEER = Node(1, 11), Node(2, 22)
CLUSTER = "c1"
PARTITION = PartitionId(TopicId("a" * 32), 0)


class Peer:
    """Another broker: it says who it is, and keeps what it is told."""

    def __init__(self, node: Node = PEER, cluster_id: str = CLUSTER) -> None:
        self.node = node
        self.cluster_id = cluster_id
        self.parcels: list[Parcel] = []
        self.channels: list[Channel] = []
        self.server = Server([TcpAddress("127.0.0.1", 0)], self._make_session)

    def _make_session(self, connection: Connection) -> Channel:
        self.channels.append(Channel(connection, self._serve))
        return self.channels[-1]

    def _serve(
        self,
        channel: Channel,
        call: int,
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        if call == HELLO.number:
            answer = pb.HelloResponse(
                cluster_id=self.cluster_id,
                broker_id=self.node.broker,
                directory=self.node.directory,
            )
            channel.answer(message_id, call, answer.SerializeToString())
        else:
            assert call == RAFT.number
            self.parcels.append(decode(bytes(envelope), memoryview(bytes(payload))))
            channel.leave_unanswered()

    @property
    def address(self) -> str:
        return str(self.server.addresses[0])


class Own:
    """This broker's links, and what they said."""

    def __init__(self, cluster_id: str = CLUSTER) -> None:
        self.said: list[tuple[str, Node]] = []
        self.links = PeerLinks(
            ME,
            lambda: cluster_id,
            on_up=lambda node: self.said.append(("up", node)),
            on_down=lambda node: self.said.append(("down", node)),
        )

    async def reaches(self, said: str = "up", node: Node = PEER) -> None:
        await until(lambda: bool(self.said) and self.said[-1] == (said, node))


@asynccontextmanager
async def met(peer: Peer, own: Own | None = None) -> AsyncIterator[Own]:
    """This broker knows the peer, and it is there."""
    own = own or Own()
    async with peer.server:
        own.links.know({ME: "nowhere:1", peer.node: peer.address})
        try:
            yield own
        finally:
            await own.links.close()


def heartbeat(version: int = 1) -> Heartbeat:
    return Heartbeat(incarnation=1, version=version, is_whole=True, needs_whole=False, claims={})


def letter(payload: bytes = b"") -> Letter:
    request = AppendRequest(term=1, previous_term=0, previous_offset=0, commit_offset=0)
    return Letter(PARTITION, request, payload)


async def test_a_peer_is_up_when_it_said_who_it_is_and_gets_parcels_without_answering() -> None:
    """R-REP-1: brokers talk over the same port and frames as clients."""
    peer = Peer()
    async with met(peer) as own:
        parcel = Parcel(sender=ME, receiver=PEER, letters=(letter(b"bytes"),))
        own.links.send(parcel)
        assert own.links.channel(2) is None, "not yet"
        await own.reaches()
        own.links.send(parcel)
        own.links.send(Parcel(sender=ME, receiver=Node(3, 3)))
        await until(lambda: bool(peer.parcels))
        assert peer.parcels[0].letters == parcel.letters
        assert peer.parcels[0].cluster_id == CLUSTER
        channel = own.links.channel(2)
        assert channel is not None
        await until(lambda: channel.pending_calls == 0)
        assert own.links.channel(3) is None
    assert own.said == [("up", PEER), ("down", PEER)]


@pytest.mark.parametrize(
    ("peer", "complaint"),
    [
        (Peer(cluster_id="c2"), "belongs to cluster c2"),
        (Peer(Node(2, 99)), "It is 2/63"),
        (Peer(Node(3, 22)), "It is 3/16"),
    ],
)
async def test_somebody_else_is_not_up_and_that_is_said_once(
    peer: Peer, complaint: str, caplog: pytest.LogCaptureFixture
) -> None:
    own = Own()
    async with peer.server:
        own.links.know({PEER: peer.address})
        # Each look at it is a connection; haste makes them follow each other.
        with caplog.at_level(logging.WARNING):
            while len(peer.channels) < 4:
                own.links.hurry(PEER)
                await asyncio.sleep(0)
        await own.links.close()
    assert own.said == []
    complaints = [record.message for record in caplog.records if complaint in record.message]
    assert len(complaints) == 1, caplog.text


async def test_a_node_without_a_directory_is_whoever_has_its_number() -> None:
    """As meta servers know each other: by the configuration."""
    peer = Peer(cluster_id="another")
    own = Own(cluster_id="")
    nameless = Node(2, 0)
    async with peer.server:
        own.links.know({nameless: peer.address})
        await own.reaches(node=nameless)
        await own.links.close()


async def test_a_connection_that_ends_is_made_again() -> None:
    peer = Peer()
    async with met(peer) as own:
        for _ in range(3):
            await own.reaches()
            own.said.clear()
            peer.channels[-1].connection.abort()
            await own.reaches("down")
            own.links.hurry(PEER)
        await own.reaches()


async def test_a_peer_that_moved_or_left_is_let_go() -> None:
    peer, elsewhere = Peer(), Peer()
    async with met(peer) as own, elsewhere.server:
        await own.reaches()
        own.links.know({PEER: elsewhere.address})
        assert own.said[-1] == ("down", PEER), "at once"
        await own.reaches()
        assert own.links.knows(PEER)
        own.links.know({})
        assert own.said[-1] == ("down", PEER)
        assert not own.links.knows(PEER)
        await until(lambda: elsewhere.channels[-1].connection.is_closed)


async def test_a_peer_that_does_not_read_costs_bounded_memory() -> None:
    """R-REP-2: Raft repeats what is dropped; heartbeats go on until even they are too much."""
    peer = Peer()
    async with met(peer) as own:
        await own.reaches()
        peer.channels[-1].connection.pause_reading(Pause.DRAINING)
        channel = own.links.channel(2)
        assert channel is not None
        outbox = channel.connection.outbox
        large = Parcel(sender=ME, receiver=PEER, letters=(letter(bytes(MIB)),))
        fill(lambda: own.links.send(large), lambda: own.links.parcels_dropped > 3)
        assert outbox.queued_bytes <= PEER_QUEUE_BYTES_MAX + 2 * MIB
        queued_bytes = outbox.queued_bytes
        own.links.send(
            Parcel(sender=ME, receiver=PEER, letters=large.letters, heartbeat=heartbeat())
        )
        assert 0 < outbox.queued_bytes - queued_bytes < 1000, "the heartbeat alone"
        outbox.add(bytes(PEER_QUEUE_BYTES_MAX))
        own.links.send(Parcel(sender=ME, receiver=PEER, heartbeat=heartbeat(2)))
        assert outbox.queued_bytes == 0, "it was given up"
        await own.reaches("down")
        await own.reaches()


def fill(send: Callable[[], None], is_full: Callable[[], bool]) -> None:
    for _ in range(4 * PEER_QUEUE_BYTES_MAX // MIB):
        if is_full():
            return
        send()
    raise AssertionError("it took everything")
