"""Committed batches on their way to partitions that another broker leads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from penstock.coordination.staging.records import NamedAttempt
from penstock.model.errors import (
    Busy,
    ConnectionLost,
    NotLeader,
    OutOfOrderSequence,
    PenstockError,
    StorageFailed,
    UnknownTopicId,
)
from penstock.model.limits import COPY_PRODUCER_ID_MIN
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.records import decode_messages
from penstock.records.header import BatchHeader, check_produced
from tests.kit.broker.staging import Life, living
from tests.kit.simulated_disk import SimulatedDisk
from tests.unit.broker.staging.test_coordinator import led_by


class OtherBroker:
    """Takes what is sent to it, as its script says, and remembers it."""

    def __init__(self) -> None:
        self.script: list[PenstockError | None] = []
        self.requests: list[pb.CopyRequest] = []
        self.headers: list[BatchHeader] = []
        self.values: list[bytes | None] = []
        self.is_reachable = True

    def channel(self, broker_id: int) -> Channel | None:
        assert broker_id == 2
        return cast(Channel, self) if self.is_reachable else None

    def start_call(
        self,
        number: int,
        envelope: bytes,
        payload: Sequence[bytearray],
        callback: Callable[[PenstockError | None, memoryview, memoryview], None],
    ) -> None:
        assert number == pb.CALL_COPY
        self.requests.append(pb.CopyRequest.FromString(envelope))
        [batch] = payload
        error = self.script.pop(0) if self.script else None
        if error is None:
            self.headers.append(check_produced(memoryview(batch)))
            self.values += [one.value for one in decode_messages(batch, "orders", 1, 0)]
        nothing = memoryview(b"")
        asyncio.get_running_loop().call_soon(callback, error, nothing, nothing)


async def staged_for_both(life: Life) -> NamedAttempt:
    """Two batches for the partition here, two for the one that is led elsewhere."""
    told = [
        life.start_stage("a", number, [b"%d" % number], partition=number % 2) for number in range(4)
    ]
    life.driver.end_turn()
    await asyncio.gather(*told)
    return NamedAttempt("a", 4)


def give_away(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another broker leads orders-1, and everything that this one does not lead."""
    life.partitions.find("orders", 1).replica._lose_leadership()
    led_by(life, 2, monkeypatch)


async def test_each_batch_goes_where_its_partition_is_led(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-REP-1, R-SPK-2: numbered, under the producer of the decision and the coordinator's term."""
    other = OtherBroker()
    async with living(SimulatedDisk(), channels=other) as life:
        give_away(life, monkeypatch)
        committed = await life.commit(await staged_for_both(life))
        assert (committed.records, committed.readable) == (4, True)
        assert life.values() == [b"0", b"2"]
        assert other.values == [b"1", b"3"]
        assert life.values(partition=1) == []
        assert [header.base_sequence for header in other.headers] == [0, 1]
        [producer_id] = {header.producer_id for header in other.headers}
        assert producer_id >= COPY_PRODUCER_ID_MIN
        [request] = {request.SerializeToString() for request in other.requests}
        sent = pb.CopyRequest.FromString(request)
        assert (sent.topic, sent.partition) == ("orders", 1)
        assert sent.topic_id == life.topics.find("orders").id
        assert sent.coordinator_term == life.log.term
        await life.until_noted()
        assert life.table.low_offset() is None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotLeader(), NotLeader),
        (ConnectionLost(), ConnectionLost),
        (StorageFailed(), StorageFailed),
        # One before it was lost, or the broker does not know the topic yet: not the caller's fault.
        (OutOfOrderSequence(), Busy),
        (UnknownTopicId(), Busy),
    ],
)
async def test_what_is_not_taken_is_sent_again(
    error: PenstockError, told: type[PenstockError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-SPK-2: with the same numbers, so that what was taken after all is not taken twice."""
    other = OtherBroker()
    async with living(SimulatedDisk(), channels=other) as life:
        give_away(life, monkeypatch)
        named = await staged_for_both(life)
        # Of the try that follows the decision, for which the caller waits.
        other.script = [None, error]
        with pytest.raises(told):
            await life.commit(named)
        assert (await life.commit(named)).already
        assert life.values() == [b"0", b"2"], "what was here is not written again"
        places = [(header.base_sequence, header.producer_id) for header in other.headers]
        assert [sequence for sequence, _ in places] == [0, 0, 1]
        assert len({producer_id for _, producer_id in places}) == 1


async def test_a_leader_that_cannot_be_reached_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = OtherBroker()
    async with living(SimulatedDisk(), channels=other) as life:
        give_away(life, monkeypatch)
        named = await staged_for_both(life)
        other.is_reachable = False
        with pytest.raises(NotLeader, match="cannot be reached"):
            await life.commit(named)
        assert len(life.table.unfinished()) == 1
        other.is_reachable = True
        life.staging.one_round(is_expiry_due=False)
        await life.until_noted()
        assert other.values == [b"1", b"3"]


async def test_what_its_leader_refuses_for_ever_is_refused_when_it_is_staged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-PRO-1: by the settings of the topic, which every broker knows."""
    other = OtherBroker()
    async with living(SimulatedDisk(), channels=other) as life:
        give_away(life, monkeypatch)
        await life.stage("first", [b"a"])
        await life.topics.alter("orders", {"batch_bytes_max": "1024"}, ())
        for topic, number in (("orders", 9), ("nowhere", 0)):
            with pytest.raises(PenstockError, match="no"):
                life.start_stage("a", 0, [b"a"], topic=topic, partition=number)
        with pytest.raises(PenstockError, match="larger than the 1024"):
            life.start_stage("a", 0, [b"a" * 2000], partition=1)
        await life.topics.alter("orders", {"compression_type": "zstd"}, ())
        told: Any = life.start_stage("a", 0, [b"a" * 900], partition=1)
        life.driver.end_turn()
        assert not await told
        await life.commit(NamedAttempt("a", 1))
        assert other.headers[0].codec == 4


async def test_a_topic_that_was_deleted_is_no_destination(monkeypatch: pytest.MonkeyPatch) -> None:
    other = OtherBroker()
    async with living(SimulatedDisk(), channels=other) as life:
        give_away(life, monkeypatch)
        named = await staged_for_both(life)
        monkeypatch.undo()
        with contextlib.suppress(PenstockError):
            await life.topics.delete("orders")
        assert (await life.commit(named)).readable
        assert other.requests == []


@pytest.mark.parametrize("comes", [True, False])
async def test_a_topic_that_is_not_known_yet_is_waited_for(
    comes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-SPK-2: a coordinator that has just come to lead may hear of a new topic after what was
    committed for it: rows must not be dropped for that."""
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"row"])
        registry = life.topics._registry
        known = registry.image
        without = replace(known, topics={}, deleted_topics=())
        monkeypatch.setattr(registry, "_image", without)
        with pytest.raises(Busy, match="not heard of topic 'orders'"):
            await life.commit(named)
        if comes:
            monkeypatch.setattr(registry, "_image", known)
        life.clock.time_ms += 31_000
        async with asyncio.timeout(10):
            while True:
                # Whoever asks while a try is under way is told how that ended.
                with contextlib.suppress(Busy):
                    assert (await life.commit(named)).readable
                    break
        monkeypatch.setattr(registry, "_image", known)
        assert life.values() == ([b"row"] if comes else [])
