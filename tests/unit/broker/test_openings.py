"""Batches that are opened before they are appended: nobody waits for another's large ones."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker import openings
from penstock.model.errors import Busy, InvalidBatch
from penstock.model.limits import MIB
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.records import BatchBuilder, Codec
from tests.kafka_support import connect
from tests.support import RawClient, another_client, batch, running
from tests.unit.broker.kafka.talk import produce

BOMBS = 4


def bomb(size_bytes: int = 8 * MIB, sequence: int = -1) -> bytearray:
    """A kilobyte or so that opens to much more."""
    builder = BatchBuilder(2 * size_bytes, Codec.ZSTD)
    assert builder.append(1_000, b"key", bytes(size_bytes)) >= 0
    producer_id, epoch = (-1, -1) if sequence < 0 else (7, 0)
    made = builder.build(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return bytearray(made)


async def appended(client: RawClient, payload: bytearray) -> int:
    return (await client.produce("orders", payload)).base_offset


@pytest.mark.parametrize(
    "settings", [{"compression_type": "gzip"}, {"cleanup_policy": "compact"}], ids=str
)
@pytest.mark.parametrize("protocol", ["native", "kafka"])
async def test_others_are_served_meanwhile(protocol: str, settings: dict[str, str]) -> None:
    async with running() as (broker, client), another_client(broker) as other:
        await client.create("orders", 1, **settings)
        await client.create("others")
        theirs = await connect(broker)

        async def send() -> None:
            if protocol == "native":
                await asyncio.gather(*(appended(client, bomb()) for _ in range(BOMBS)))
            else:
                for _ in range(BOMBS):
                    answer = await produce(theirs, bomb())
                    assert answer.error_message is None

        sending = asyncio.create_task(send())
        served = 0
        while not sending.done():
            await other.produce("others", batch([b"x"]))
            served += 1
        await sending
        await theirs.close()
        # If bombs were opened on the loop, it would be one for each, and one between the two.
        assert served > 2 * BOMBS, f"{served} round trips beside {BOMBS} bombs"


async def test_what_comes_behind_is_appended_behind() -> None:
    """R-PRO-2: of an idempotent producer, too; and everything is there as it was sent."""
    async with running() as (_, client):
        await client.create("orders", compression_type="uncompressed", batch_bytes_max=str(8 * MIB))
        sent = [
            bomb(MIB, 0),
            batch([b"small"], producer=(7, 0, 1)),
            bomb(2 * MIB, 2),
            batch([b"last"], producer=(7, 0, 3)),
        ]
        assert await asyncio.gather(*(appended(client, one) for one in sent)) == [0, 1, 2, 3]
        lengths: list[int] = []
        while len(lengths) < len(sent):
            found = await client.fetch("orders", len(lengths))
            lengths += [len(message.value or b"") for message in found]
        assert lengths == [MIB, 5, 2 * MIB, 4]


async def test_what_cannot_be_opened_is_refused_and_the_next_is_not() -> None:
    """More than 64 MiB, or more than the topic takes as it wants it."""
    async with running() as (_, client):
        await client.create("orders", compression_type="uncompressed")
        outcomes = await asyncio.gather(
            appended(client, bomb(65 * MIB)),
            appended(client, bomb(2 * MIB)),
            appended(client, batch([b"small"])),
            return_exceptions=True,
        )
        assert isinstance(outcomes[0], InvalidBatch)
        assert "larger" in str(outcomes[1])
        assert outcomes[2] == 0


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as (_, client):
        await client.create("orders", compression_type="gzip")
        one = bomb(MIB)
        monkeypatch.setattr(openings, "OPENING_BYTES_MAX", len(one))
        outcomes = await asyncio.gather(
            appended(client, one), appended(client, bomb(MIB)), return_exceptions=True
        )
        assert outcomes[0] == 0
        assert isinstance(outcomes[1], Busy)
        assert await appended(client, bomb(MIB)) == 1


async def test_what_a_client_left_behind_is_appended() -> None:
    async with running() as (broker, client):
        await client.create("orders", compression_type="gzip")
        async with another_client(broker) as leaving:
            request = pb.ProduceRequest(topic="orders", acks=0)
            leaving.channel.tell(pb.CALL_PRODUCE, request.SerializeToString(), [bomb(MIB)])
            await leaving.channel.call(calls.PING, pb.PingRequest())
        async with asyncio.timeout(10):
            while not await client.fetch("orders"):
                await asyncio.sleep(0)
