"""What may wait: checked, placed, kept so that each can be read alone."""

from __future__ import annotations

import pytest

from penstock.broker.delay import admission as intake
from penstock.broker.delay.admission import Waiting, build_kept, kept_parts
from penstock.coordination.delay import table
from penstock.coordination.delay.records import Head
from penstock.model.errors import (
    BatchTooLarge,
    Busy,
    CorruptBatch,
    InvalidBatch,
    InvalidDelay,
    InvalidRequest,
    InvalidTopic,
    PenstockError,
    UnknownTopic,
)
from penstock.model.limits import DELAY_MS_MAX, FRAME_BYTES_MAX
from penstock.records import Codec
from tests.kit.broker.delay import START_MS, living, waiting_batch
from tests.kit.broker.running import batch
from tests.kit.simulated_disk import SimulatedDisk


def waiting(due_ms: int, size: int) -> Waiting:
    return Waiting(None, b"", (), due_ms, size)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([(1, 100)], [1]),
        ([(1, 100)] * 500, [500]),
        ([(1, 1000)] * 100, [65, 35]),
        ([(at, 1000) for at in range(10)], [4, 4, 2]),
        ([(1, 1000)] * 10 + [(2, 1000)] * 3, [10, 3]),
        ([(at, 100_000) for at in range(3)], [1, 1, 1]),
    ],
)
def test_what_is_due_together_is_kept_together(
    given: list[tuple[int, int]], expected: list[int]
) -> None:
    """R-DEL-13: reading one message must not mean reading thousands."""
    parts = list(kept_parts([waiting(*one) for one in given]))
    assert [len(part) for part in parts] == expected
    assert [one for part in parts for one in part] == [waiting(*one) for one in given]


@pytest.mark.parametrize(
    ("due_ms", "relative", "says"),
    [
        ([-1], True, "0 or more"),
        ([-1], False, "0 or more"),
        ([DELAY_MS_MAX + 1], True, "ten years"),
        ([2**63 - 1], False, "ten years"),
        ([], True, "0 times"),
        ([1, 2, 3], True, "3 times"),
    ],
)
async def test_absurd_times_are_refused(due_ms: list[int], relative: bool, says: str) -> None:
    """R-DEL-13: bad input, one sentence, nothing kept."""
    async with living(SimulatedDisk()) as life:
        await life.delay(b"first", after_ms=5)
        with pytest.raises(InvalidDelay, match=says):
            life.start_delay([(None, b"a"), (None, b"b")], due_ms, relative=relative)
        assert life.store.table.pending == 1


async def test_what_cannot_be_appended_cannot_wait() -> None:
    async with living(SimulatedDisk()) as life:
        await life.delay(b"first", after_ms=5)
        one = [(None, b"a")]
        with pytest.raises(UnknownTopic):
            life.start_delay(one, [1], topic="nowhere")
        with pytest.raises(PenstockError):
            life.start_delay(one, [1], partition=2)
        with pytest.raises(InvalidTopic):
            life.start_delay(one, [1], topic="__offsets")
        with pytest.raises(InvalidRequest, match="token"):
            life.start_delay(one, [1], token=b"short")
        damaged = batch([b"a"])
        damaged[-1] ^= 1
        with pytest.raises(CorruptBatch):
            life.start_delay(one, [1], payload=damaged)
        with pytest.raises(InvalidBatch):
            life.start_delay(one, [1], payload=bytearray(b"x" * 10))
        await life.topics.create("compacted", 1, {"cleanup_policy": "compact"})
        with pytest.raises(InvalidBatch, match="no key"):
            life.start_delay(one, [1], topic="compacted")
        assert life.store.table.pending == 1


async def test_limits_are_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-13."""
    monkeypatch.setattr(intake, "DELAYED_PER_CALL_MAX", 3)
    monkeypatch.setattr(intake, "DELAYED_MESSAGES_MAX", 4)
    monkeypatch.setattr(intake, "DELAY_LANES_MAX", 1)
    monkeypatch.setattr(intake, "_MESSAGE_BYTES_MAX", 1000)
    async with living(SimulatedDisk()) as life:
        await life.delay(b"a", b"b", b"c", after_ms=50)
        with pytest.raises(InvalidDelay, match="3 is the limit"):
            await life.delay(b"a", b"b", b"c", b"d")
        with pytest.raises(Busy, match="are the limit"):
            await life.delay(b"d", b"e", after_ms=50)
        with pytest.raises(Busy, match="partitions, which is the limit"):
            await life.delay(b"d", partition=1)
        with pytest.raises(BatchTooLarge):
            await life.delay(b"x" * 1000)
        await life.advance(50)
        await life.service.deliverer.note_arrived()
        await life.delay(b"d", b"e", b"f")


async def test_messages_of_a_key_stay_in_order_when_asked() -> None:
    """R-DEL-13: none before an earlier one of its key and topic; others as they are due."""
    async with living(SimulatedDisk()) as life:
        (first,) = await life.delay(b"1", after_ms=100, key=b"k", ordered=True)
        (second,) = await life.delay(b"2", after_ms=10, key=b"k", ordered=True)
        (other,) = await life.delay(b"3", after_ms=10, key=b"j", ordered=True)
        (free,) = await life.delay(b"4", after_ms=10, key=b"k")
        assert second.due_ms == first.due_ms
        assert other.due_ms == free.due_ms == START_MS + 10
        life.lose()
        await life.settle_turns()
        await life.gain()
        await life.delay(b"5", after_ms=50, key=b"k", ordered=True)
        await life.advance(99)
        assert life.values() == [b"3", b"4"]
        await life.advance(1)
        assert life.values() == [b"3", b"4", b"1", b"2", b"5"]
        with pytest.raises(InvalidDelay, match="no key"):
            await life.delay(b"6", ordered=True)


async def test_so_many_keys_are_kept_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "DELAY_ORDERED_KEYS_MAX", 2)
    async with living(SimulatedDisk()) as life:
        for key in (b"a", b"b"):
            await life.delay(b"x", after_ms=50, key=key, ordered=True)
        with pytest.raises(Busy, match="2 keys wait in order, which is the limit"):
            await life.delay(b"x", after_ms=50, key=b"c", ordered=True)
        await life.delay(b"x", after_ms=50, key=b"a", ordered=True)
        await life.advance(50)
        await life.delay(b"x", after_ms=50, key=b"c", ordered=True)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
async def test_compressed_batches_are_opened(codec: Codec) -> None:
    async with living(SimulatedDisk()) as life:
        await life.delay(b"first")
        payload = waiting_batch([(b"k", b"a" * 100)] * 20, codec)
        told = life.start_delay([], [0], payload=payload)
        life.driver.end_turn()
        assert len(await told) == 20
        await life.settle()
        assert life.values() == [b"first"] + [b"a" * 100] * 20


async def test_topics_get_batches_as_they_want_them() -> None:
    async with living(SimulatedDisk()) as life:
        await life.topics.create("packed", 1, {"compression_type": "zstd"})
        await life.topics.create("stamped", 1, {"timestamp_type": "append"})
        for topic in ("packed", "stamped"):
            await life.delay(*[b"a" * 100] * 20, topic=topic, after_ms=5)
        await life.advance(7)
        replica = life.partitions.find("packed", 0).replica
        (header,) = [each for each in replica.log.headers(0) if not each.is_control]
        assert header.codec == Codec.ZSTD
        assert {message.timestamp_type for message in life.messages("stamped")} == {"append"}
        assert len(life.messages("packed")) == 20


async def test_what_comes_while_nothing_may_be_written_waits_for_it() -> None:
    async with living(SimulatedDisk()) as life:
        await life.delay(b"first")
        writer = life.service.writer
        writer._held = []
        told = life.start_delay([(None, b"a")], [0])
        assert not told.done()
        life.service.intake._held_bytes = FRAME_BYTES_MAX
        with pytest.raises(Busy, match="tidied"):
            life.start_delay([(None, b"b")], [0])
        held, writer._held = writer._held, None
        writer._go_on(held)
        await told
        await life.settle()
        assert life.values() == [b"first", b"a"]


async def test_a_request_whose_end_was_lost_is_completed_when_it_comes_again() -> None:
    """Of its batches, a leader that is lost may leave the first ones alone (R-DEL-13)."""
    async with living(SimulatedDisk()) as life:
        token = b"t" * 16
        await life.delay(b"other", after_ms=500)
        head = Head(lane=1, due_ms=(START_MS + 10,), sizes=(40,), token=token, request_messages=3)
        first = Waiting(b"k", b"0", (), START_MS + 10, 40)
        life.service.writer.propose([build_kept(head, [first], START_MS)])
        life.service.writer.end_turn()
        await life.delay(b"between", after_ms=500)
        life.lose()
        await life.gain()
        values = [b"0", b"1", b"2"]
        dues = await life.delay(*values, after_ms=10, key=b"k", token=token)
        assert len(set(dues)) == 3
        assert await life.delay(*values, after_ms=10, key=b"k", token=token) == dues
        life.lose()
        await life.gain()
        assert await life.delay(*values, after_ms=10, key=b"k", token=token) == dues
        await life.advance(100)
        assert life.values() == values


async def test_a_token_of_another_request_is_refused() -> None:
    async with living(SimulatedDisk()) as life:
        token = b"t" * 16
        await life.delay(b"other", after_ms=500)
        head = Head(lane=1, due_ms=(START_MS + 10,), sizes=(40,), token=token, request_messages=3)
        first = Waiting(b"k", b"0", (), START_MS + 10, 40)
        life.service.writer.propose([build_kept(head, [first], START_MS)])
        life.service.writer.end_turn()
        life.lose()
        await life.gain()
        with pytest.raises(InvalidRequest, match="3 messages"):
            await life.delay(b"0", b"1", after_ms=10, token=token)


async def test_the_same_request_twice_while_writes_are_held_is_kept_once() -> None:
    async with living(SimulatedDisk()) as life:
        await life.delay(b"first", after_ms=500)
        writer = life.service.writer
        writer._held = []
        told = [life.start_delay([(b"k", b"1")], [10], token=b"t" * 16) for _ in range(2)]
        held, writer._held = writer._held, None
        writer._go_on(held)
        assert await told[0] == await told[1]
        await life.advance(100)
        assert life.values() == [b"1"]


async def test_what_is_refused_holds_up_no_key() -> None:
    async with living(SimulatedDisk()) as life:
        await life.delay(b"first", after_ms=500)
        with pytest.raises(InvalidDelay, match="no key"):
            life.start_delay([(b"k", b"1"), (None, b"2")], [10**11], ordered=True)
        (due,) = await life.delay(b"v", after_ms=1000, key=b"k", ordered=True)
        assert due.due_ms == START_MS + 1000


async def test_keys_on_their_way_count_against_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """And keep their order among themselves."""
    monkeypatch.setattr(table, "DELAY_ORDERED_KEYS_MAX", 3)
    async with living(SimulatedDisk()) as life:
        await life.delay(b"first", after_ms=500)
        one = life.start_delay([(b"k", b"1")], [30], ordered=True)
        two = life.start_delay([(b"k", b"2"), (b"l", b"3")], [10], ordered=True)
        with pytest.raises(Busy, match="in order, which is the limit"):
            life.start_delay([(b"m", b"4"), (b"n", b"5")], [10], ordered=True)
        life.driver.end_turn()
        assert [due.due_ms - START_MS for due in [*await one, *await two]] == [30, 30, 10]
        assert life.service.intake._flying_ordered == {}
