"""Replica sets over real sockets, real disks and real time: three brokers on one loop."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from pathlib import Path

import pytest

from penstock.model.errors import MalformedFrame, NotLeader
from penstock.model.limits import MIB, PEER_QUEUE_BYTES_MAX
from penstock.net.address import parse_address
from penstock.net.channel import connect_channel
from penstock.net.connection import Pause
from penstock.net.sockets import connect
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.frame import encode_head
from tests.system.peer_brokers import PeerBroker, append, three_brokers, until


async def test_one_is_elected_in_time_and_all_have_what_it_takes(tmp_path: Path) -> None:
    """R-REP-1, R-REP-2."""
    async with three_brokers(tmp_path) as brokers:
        began = time.monotonic()
        brokers.open()
        leader = await brokers.leader()
        assert time.monotonic() - began < 3, "an election time, a delay by chance, a few flushes"
        offsets = await asyncio.gather(*(append(leader, b"%d" % n) for n in range(200)))
        assert offsets == list(range(1, 201)), "after the first of its term"
        await brokers.until_equal()
        in_sync = leader.replicas[0].in_sync
        assert in_sync == set(brokers.nodes)
        for broker in brokers.all:
            told = broker.peering.replicas.leader(leader.replicas[0].partition, 0)
            assert told is not None
            assert (told.node, told.told.in_sync) == (leader.node, in_sync)


async def test_a_new_partition_has_its_leader_almost_at_once(tmp_path: Path) -> None:
    """R-REP-1: though the others hear of it later than the one who is to lead it."""
    async with three_brokers(tmp_path) as brokers:
        first, *others = brokers.all
        await until(lambda: all(first.peering.links.channel(b.node.broker) for b in others))
        began = time.monotonic()
        first.open(0, brokers.nodes, campaigns_at_once=True)
        await asyncio.sleep(0.02)
        for other in others:
            other.open(0, brokers.nodes)
        assert await brokers.leader() is first
        await append(first, b"one")
        assert time.monotonic() - began < 0.5


async def test_a_cut_connection_is_made_again_and_nothing_is_lost(tmp_path: Path) -> None:
    """R-REP-2. With all connections gone at once the followers suspect their leader, and may elect
    another before they hear of it again: then what was refused is written there."""
    async with three_brokers(tmp_path) as brokers:
        brokers.open()
        leader = await brokers.leader()
        written: list[int] = []
        while len(written) < 60:
            if len(written) % 20 == 10:
                for broker in brokers.all:
                    for channel in broker.channels:
                        channel.connection.abort()
            try:
                written.append(await append(leader, b"%d" % len(written)))
            except NotLeader:
                leader = await brokers.leader()
                written.append(await append(leader, b"%d" % len(written)))
        assert written == sorted(set(written))
        await brokers.until_equal()
        leader = await brokers.leader()
        partition = leader.replicas[0].partition
        for broker in brokers.all:
            # The whole list of claims came with the new connection.
            told = broker.peering.replicas.leader(partition, 0)
            assert told is not None
            assert told.node == leader.node


async def test_another_takes_over_and_the_old_one_follows_when_it_is_back(tmp_path: Path) -> None:
    """R-REP-2."""
    async with three_brokers(tmp_path) as brokers:
        brokers.open()
        leader = await brokers.leader()
        await append(leader, b"one")
        await leader.stop()
        began = time.monotonic()
        successor = await brokers.leader(but=leader)
        await append(successor, b"two")
        assert time.monotonic() - began < 4
        await leader.start()
        brokers.know()
        leader.open(0, brokers.nodes)
        await append(successor, b"three")
        await brokers.until_equal()


async def test_a_slow_peer_costs_bounded_memory_and_holds_nobody_up(tmp_path: Path) -> None:
    """R-REP-2: a majority goes on; the slow one gets the rest when it reads again."""
    async with three_brokers(tmp_path) as brokers:
        brokers.open()
        leader = await brokers.leader()
        await append(leader, b"one")
        slow = next(broker for broker in brokers.all if broker is not leader)
        paused = [channel.connection for channel in slow.channels]
        for connection in paused:
            connection.pause_reading(Pause.DRAINING)
        value = os.urandom(MIB)
        channel = leader.peering.links.channel(slow.node.broker)
        assert channel is not None
        queued_bytes_max = 0
        for _ in range(64):
            await append(leader, value)
            queued_bytes_max = max(queued_bytes_max, channel.connection.outbox.queued_bytes)
        assert queued_bytes_max < PEER_QUEUE_BYTES_MAX + 20 * MIB
        assert await brokers.leader() is leader
        for connection in paused:
            if not connection.is_closed:
                connection.resume_reading(Pause.DRAINING)
        await brokers.until_equal()


def hostile_frames(broker: PeerBroker) -> list[bytes]:
    raft = calls.RAFT.number
    me = pb.RaftRequest.Node(broker=broker.node.broker, directory=broker.node.directory)
    partition = pb.RaftRequest.PartitionId(topic_id=b"\x77" * 16)
    campaign = pb.RaftRequest.Message(
        partition=partition, term=9, campaign=pb.RaftRequest.Campaign()
    )
    stranger = pb.RaftRequest(
        sender=pb.RaftRequest.Node(broker=9, directory=9), receiver=me, messages=[campaign]
    )
    envelopes = [
        os.urandom(200),
        b"",
        pb.RaftRequest(messages=[pb.RaftRequest.Message()]).SerializeToString(),
        stranger.SerializeToString(),
    ]
    frames = [encode_head(raft, 7, envelope, 0) for envelope in envelopes]
    return [
        *frames,
        encode_head(raft, 7, envelopes[3], 5) + b"bytes",
        encode_head(raft, 7, b"", 1 << 20)[:-2],
        os.urandom(5_000),
        b"PS\x01\x16" + b"\xff" * 64,
        b"PS\x09\x16" + bytes(64),
    ]


async def test_hostile_bytes_hurt_nobody(tmp_path: Path) -> None:
    """R-NET-1: every byte from outside is hostile until it is checked."""
    async with three_brokers(tmp_path) as brokers:
        brokers.open()
        leader = await brokers.leader()
        term = leader.replicas[0].consensus.raft.state.term
        loop = asyncio.get_running_loop()
        for broker in brokers.all:
            sockets: list[socket.socket] = []
            for frame in hostile_frames(broker):
                sockets.append(await connect(parse_address(broker.address), timeout_s=5))
                await loop.sock_sendall(sockets[-1], frame)
            channel = await connect_channel(parse_address(broker.address))
            with pytest.raises(MalformedFrame):
                await channel.call(calls.RAFT, pb.RaftRequest(), [b"unannounced"])
            await channel.call(calls.HELLO, pb.HelloRequest())
            channel.close()
            for each in sockets:
                each.close()
        await append(leader, b"one")
        assert leader.replicas[0].consensus.raft.state.term == term
        await brokers.until_equal()


async def test_a_copy_that_is_far_behind_does_not_starve_what_is_written(tmp_path: Path) -> None:
    """R-REP-2: catch-up in slices, within a quota."""
    async with three_brokers(tmp_path) as brokers:
        brokers.open()
        leader = await brokers.leader()
        behind = next(broker for broker in brokers.all if broker is not leader)
        await behind.stop()
        value = os.urandom(MIB // 2)
        for _ in range(60):
            await asyncio.gather(append(leader, value), append(leader, value))
        await behind.start()
        brokers.know()
        replica = behind.open(0, brokers.nodes)
        waits_s = []
        while replica.high_watermark < 120:
            began = time.monotonic()
            await append(leader, b"live")
            waits_s.append(time.monotonic() - began)
            await asyncio.sleep(0.002)
        assert sorted(waits_s)[len(waits_s) // 2] < 0.1
        await brokers.until_equal()
