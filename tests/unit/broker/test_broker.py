"""A broker's life: it starts, stops, and finds everything again."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path

import pytest

from penstock.broker.broker import Broker
from penstock.model.errors import InternalError, InvalidConfig
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.storage.files.journal import read_journal, write_journal
from tests.kit.broker.running import CONFIG, batch, running
from tests.kit.simulated_disk import Persistence, SimulatedCrash, SimulatedDisk


async def test_everything_is_there_after_a_clean_restart() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", partitions=3)
        for partition in range(3):
            await client.produce("orders", batch([b"a", b"b"]), partition=partition)
    assert "clean.journal" in disk.files()
    async with running(disk.root) as (_, client):
        assert "clean.journal" not in disk.files(), "the mark of an orderly stop counts once"
        for partition in range(3):
            assert await client.values("orders", partition) == [b"a", b"b"]


@pytest.mark.parametrize("durability", ["fsync", "os"])
async def test_what_was_acknowledged_survives_a_crash_of_the_broker(durability: str) -> None:
    """R-STO-6: a killed process leaves what it wrote; a killed machine what it flushed."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", durability=durability)
        for number in range(10):
            await client.produce("orders", batch([b"%d" % number]))
        crashed = disk.after_crash("lost" if durability == "fsync" else "kept")
    async with running(crashed.root) as (_, client):
        assert await client.values("orders") == [b"%d" % number for number in range(10)]


async def test_a_damaged_partition_is_offline_and_the_others_are_served() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", partitions=2)
        for number in range(10):
            await client.produce("orders", batch([b"%d" % number]))
        await client.produce("orders", batch([b"fine"]), partition=1)
        crashed = disk.after_crash("lost")
    [path] = [
        path for path in crashed.files() if path.startswith("topics/orders/0/") and ".log" in path
    ]
    crashed.flip_bit(path, 100, 3)
    async with running(crashed.root) as (_, client):
        described = await client.describe("orders")
        assert "position" in described.partitions[0].error.message
        cluster, _ = await client.channel.call(calls.DESCRIBE_CLUSTER, pb.DescribeClusterRequest())
        copies = [[copy.broker for copy in each.offline] for each in cluster.partitions]
        assert copies == [[1], []]
        assert "position" in cluster.partitions[0].offline[0].reason
        assert await client.values("orders", 1) == [b"fine"]
        with pytest.raises(Exception, match="offline"):
            await client.produce("orders", batch([b"a"]))


async def delete_with_a_crash(operation: int) -> SimulatedDisk | None:
    """The disk after a crash at that operation of a topic's deletion, None if it has fewer."""
    disk = SimulatedDisk()
    # The broker cannot stop in an orderly way on a disk that is gone.
    with contextlib.suppress(SimulatedCrash):
        async with running(disk.root) as (_, client):
            await client.create("orders")
            await client.produce("orders", batch([b"a"]))
            disk.crash_at(len(disk.operations) + operation)
            with contextlib.suppress(InternalError):
                await client.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name="orders"))
                return None
    return disk


async def test_a_deletion_that_a_crash_interrupted_is_finished() -> None:
    """A crash at every disk operation of a deletion: the topic is wholly there or wholly gone."""
    outcomes = set()
    operation = 0
    while disk := await delete_with_a_crash(operation := operation + 1):
        persistences: tuple[Persistence, ...] = ("lost", "kept", operation)
        for persistence in persistences:
            async with running(disk.after_crash(persistence).root) as (_, client):
                request = pb.MetadataRequest(topics=["orders"])
                response, _ = await client.channel.call(calls.METADATA, request)
                is_there = not response.topics[0].HasField("error")
                outcomes.add(is_there)
                if is_there:
                    assert await client.values("orders") == [b"a"], operation
    assert outcomes == {True, False}


async def test_folders_the_registry_lost_are_taken_in() -> None:
    """R-STO-1: the folder walk rebuilds the map."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", partitions=2)
        await client.produce("orders", batch([b"a"]), partition=1)
    disk.root.remove("registry.journal")
    async with running(disk.root) as (_, client):
        assert await client.values("orders", 1) == [b"a"]


async def test_one_broker_at_a_time_uses_a_folder(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, data=str(tmp_path / "data"))
    async with Broker(config):
        with pytest.raises(InvalidConfig, match="in use by another broker"):
            await Broker(config).start()
    async with Broker(config) as broker:
        assert broker.addresses


async def test_a_folder_belongs_to_its_broker(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, data=str(tmp_path))
    async with Broker(config):
        pass
    with pytest.raises(InvalidConfig, match="belongs to broker 1"):
        await Broker(dataclasses.replace(config, broker_id=2)).start()


async def test_a_folder_of_an_earlier_version_gets_a_directory_id() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"a"]))
    payload = read_journal(disk.root, "meta")
    assert payload is not None
    facts = json.loads(payload)
    assert facts.pop("directory_id") > 0
    write_journal(disk.root, "meta", json.dumps(facts).encode())
    async with running(disk.root) as (_, client):
        assert await client.values("orders") == [b"a"]
    again = read_journal(disk.root, "meta")
    assert again is not None
    assert json.loads(again)["directory_id"] > 0
    async with running(disk.root) as (_, client):
        assert await client.values("orders") == [b"a"]
    assert read_journal(disk.root, "meta") == again, "and keeps it"


async def test_a_broker_on_its_own_writes_no_state_of_raft() -> None:
    """Nobody but it can have led: there is nothing to remember, and nothing to wait for."""
    disk = SimulatedDisk()
    for number in range(3):
        async with running(disk.root) as (_, client):
            if number == 0:
                await client.create("orders", partitions=2)
            await client.produce("orders", batch([b"a"]))
    assert not [name for name in disk.files() if "raft" in name]


async def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    async with Broker(dataclasses.replace(CONFIG, data=str(tmp_path / "a"))) as first:
        second = dataclasses.replace(CONFIG, data=str(tmp_path / "b"), listen=(first.addresses[0],))
        with pytest.raises(InvalidConfig):
            await Broker(second).start()
        async with Broker(dataclasses.replace(second, listen=("127.0.0.1:0",))):
            pass


async def test_unix_and_ipv6_addresses(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with running(listen=(f"unix:{path}", "[::1]:0")) as (broker, client):
        await client.create("orders")
        await client.produce("orders", batch([b"a"]))
        assert broker.addresses[0] == f"unix:{path}"
        assert broker.addresses[1].startswith("[::1]:")


async def test_hello() -> None:
    async with running() as (_, client):
        request = pb.HelloRequest(client_name="test", software="test/1")
        response, _ = await client.channel.call(calls.HELLO, request)
        assert response.broker_id == 1
        assert response.software.startswith("penstock/")
