"""Brokers cut down to what replicas need: a port, a disk, a loop, the peers. All of it real."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.model.errors import PenstockError, ShuttingDown
from penstock.model.ids import PartitionId, TopicId
from penstock.net.address import TcpAddress
from penstock.net.channel import Channel
from penstock.net.clock import SystemClock
from penstock.net.connection import Connection
from penstock.net.server import Server
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import HELLO, RAFT
from penstock.raft.membership import Membership, Node
from penstock.records import build_batch
from penstock.records.header import read_header
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import ThreadFlusher
from penstock.replication.parcels.wire import decode
from penstock.replication.peers.peering import Peering
from penstock.replication.replica.participant import Participant
from penstock.replication.replica.replica import Replica
from penstock.replication.replica.transport import TIMING, Surroundings
from penstock.storage.files.os_files import OsDirectory
from penstock.storage.log.log import Log, LogConfig

CONFIG = LogConfig(segment_bytes=1 << 26, segment_ms=1 << 40, index_interval_bytes=4096)
TOPIC = TopicId("7" * 32)


class PeerBroker:
    """`start`, then `know` the others, then `open` partitions."""

    def __init__(self, node: Node, folder: Path, cluster_id: str = "c1") -> None:
        self.node = node
        self.cluster_id = cluster_id
        self._folder = folder
        self._port = 0
        self.channels: list[Channel] = []
        self.replicas: dict[int, Replica] = {}

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.driver = Driver()
        self.flusher = ThreadFlusher(loop, 2)
        self.flusher.start()
        clock = SystemClock()
        self.peering = Peering(
            self.node, lambda: self.cluster_id, self.driver, clock, incarnation=secrets.randbits(62)
        )
        self.around = Surroundings(
            me=self.node,
            driver=self.driver,
            flusher=self.flusher,
            clock=clock,
            peers=self.peering.replicas,
            timing=TIMING,
            draw_delay_ms=lambda: secrets.randbelow(TIMING.election_ms),
        )
        self.server = Server([TcpAddress("127.0.0.1", self._port)], self._make_session)
        await self.server.start()
        self.address = str(self.server.addresses[0])
        self._port = int(self.address.rpartition(":")[2])
        self.peering.start()

    async def stop(self) -> None:
        await self.peering.stop()
        await self.server.drain(timeout_s=0)
        for replica in self.replicas.values():
            self.peering.replicas.remove(replica.partition)
            idle = asyncio.Event()
            replica.idleness.when(idle.set)
            await idle.wait()
            replica.leave(ShuttingDown())
            replica.close()
        self.replicas.clear()
        self.flusher.stop()

    def _make_session(self, connection: Connection) -> Channel:
        channel = Channel(connection, self._serve, on_read_end=self.driver.end_turn)
        self.channels.append(channel)
        return channel

    def _serve(
        self,
        channel: Channel,
        call: int,
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        if call == HELLO.number:
            hello = pb.HelloResponse(
                cluster_id=self.cluster_id,
                broker_id=self.node.broker,
                directory=self.node.directory,
            )
            channel.answer(message_id, call, hello.SerializeToString())
        else:
            assert call == RAFT.number, call
            self.peering.receive(decode(envelope, payload))
            channel.leave_unanswered()

    def open(self, number: int, voters: list[Node], *, campaigns_at_once: bool = False) -> Replica:
        directory = OsDirectory(str(self._folder)).subdirectory(str(number))
        replica = Replica(
            f"{self.node} {number}",
            PartitionId(TOPIC, number),
            Log.open(directory, CONFIG),
            directory,
            initial=Membership(frozenset(voters)),
            durability="fsync",
            around=self.around,
            campaigns_at_once=campaigns_at_once,
        )
        self.replicas[number] = replica
        self.peering.replicas.add(Participant(replica))
        self.driver.end_turn()
        return replica


class PeerBrokers:
    """Three of them on one loop."""

    def __init__(self, folder: Path) -> None:
        nodes = [Node(number, 100 + number) for number in (1, 2, 3)]
        self.all = [PeerBroker(node, folder / str(node.broker)) for node in nodes]

    @property
    def nodes(self) -> list[Node]:
        return [broker.node for broker in self.all]

    def know(self) -> None:
        addresses = {broker.node: broker.address for broker in self.all}
        for broker in self.all:
            broker.peering.know(addresses)

    def open(self, number: int = 0) -> None:
        for broker in self.all:
            broker.open(number, self.nodes)

    async def leader(self, number: int = 0, *, but: PeerBroker | None = None) -> PeerBroker:
        def leading() -> list[PeerBroker]:
            return [
                broker
                for broker in self.all
                if broker is not but
                and number in broker.replicas
                and broker.replicas[number].is_leader
            ]

        await until(lambda: bool(leading()))
        return leading()[0]

    async def until_equal(self, number: int = 0) -> None:
        """All have the same, byte for byte."""

        def ends() -> set[int]:
            return {broker.replicas[number].high_watermark for broker in self.all}

        await until(lambda: len(ends()) == 1)
        contents = {content(broker.replicas[number]) for broker in self.all}
        assert len(contents) == 1


def content(replica: Replica) -> bytes:
    offset, pieces = replica.log.first_offset, []
    while offset < replica.high_watermark:
        part, offset = replica.log.read_stored(offset, 1 << 24, replica.high_watermark)
        pieces.append(part.read())
    return b"".join(pieces)


async def append(broker: PeerBroker, value: bytes, number: int = 0, acks: int = -1) -> int:
    """The offset of the message once it is as safe as was asked."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finished(error: PenstockError | None) -> None:
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    batch = memoryview(build_batch([(None, value)]))
    offset = broker.replicas[number].propose(read_header(batch), batch, finished, acks)
    broker.driver.end_turn()
    await done
    return offset


async def until(condition: object, timeout_s: float = 15) -> None:
    assert callable(condition)
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def three_brokers(folder: Path) -> AsyncIterator[PeerBrokers]:
    brokers = PeerBrokers(folder)
    for broker in brokers.all:
        (folder / str(broker.node.broker)).mkdir()
        await broker.start()
    brokers.know()
    try:
        yield brokers
    finally:
        for broker in brokers.all:
            await broker.stop()
