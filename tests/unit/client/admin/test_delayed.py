"""Delayed messages in the client: what is asked for, in how many calls, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.broker.partitions.admission import Opening
from penstock.broker.topics.remote_admission import StagedAdmission
from penstock.client.admin import delayed
from penstock.client.admin.delayed import DelayedMessage, _due_ms, _parse_id, _partition_of, _parts
from penstock.client.client import connect
from penstock.model.errors import InvalidDelay, InvalidRequest, UnknownTopic
from penstock.model.ids import TopicId
from penstock.records.header import BatchHeader
from tests.kit.broker.running import running


def test_delays_are_rounded_up_never_down() -> None:
    """R-DEL-13: never early."""
    assert _due_ms(DelayedMessage(b"", delay_s=0.0001)) == 1
    assert _due_ms(DelayedMessage(b"", delay_s=0)) == 0
    at = datetime(2026, 1, 1, 0, 0, 0, 1, UTC)
    assert _due_ms(DelayedMessage(b"", deliver_at=at)) == 1_767_225_600_001
    past = datetime(1950, 1, 1, tzinfo=UTC)
    assert _due_ms(DelayedMessage(b"", deliver_at=past)) == 0


@pytest.mark.parametrize(
    "delay_s", [-0.1, float("nan"), float("inf"), 1e12, "5", timedelta(seconds=5)]
)
def test_absurd_delays_are_refused(delay_s: Any) -> None:
    with pytest.raises(InvalidDelay, match="give seconds, from 0 to"):
        _due_ms(DelayedMessage(b"", delay_s=delay_s))


@pytest.mark.parametrize("at", [1_800_000_000.0, "2030-01-01", datetime.min])  # noqa: DTZ901
def test_what_is_no_time_is_refused(at: Any) -> None:
    with pytest.raises(InvalidDelay, match="give a datetime"):
        _due_ms(DelayedMessage(b"", deliver_at=at))


def test_one_of_both_is_to_be_said() -> None:
    for message in (
        DelayedMessage(b""),
        DelayedMessage(b"", delay_s=1, deliver_at=datetime.now(UTC)),
    ):
        with pytest.raises(InvalidDelay, match="by delay_s, or by deliver_at"):
            _due_ms(message)


@pytest.mark.parametrize("text", ["", "x", "1", "1-", "-1", "-5-1", "g-1", "1-0", "f" * 40 + "-1"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="no id of a delayed message"):
        _parse_id(text)
    assert _parse_id("19c14f5ae80-2a") == (0x19C14F5AE80, 0x2A)


def test_partitions_are_those_of_the_key_or_in_turn() -> None:
    keyed = DelayedMessage(b"", key=b"k", delay_s=1)
    assert len({_partition_of(keyed, number, "t", 5) for number in range(9)}) == 1
    free = DelayedMessage(b"", delay_s=1)
    assert [_partition_of(free, number, "t", 3) for number in range(4)] == [0, 1, 2, 0]
    assert _partition_of(DelayedMessage(b"", partition=2), 0, "t", 3) == 2
    for partition in (3, -1):
        with pytest.raises(UnknownTopic, match="numbered from 0"):
            _partition_of(DelayedMessage(b"", partition=partition), 0, "t", 3)
    with pytest.raises(TypeError, match="encode it"):
        _partition_of(DelayedMessage(b"", key="k"), 0, "t", 3)  # type: ignore[arg-type]


def test_calls_are_not_too_large_and_of_one_sort() -> None:
    small = DelayedMessage(b"x", delay_s=1)
    dated = DelayedMessage(b"x", deliver_at=datetime.now(UTC))
    large = DelayedMessage(b"x" * 300_000, delay_s=1)
    heavy = DelayedMessage(b"", delay_s=1, headers=[("h", b"x" * 300_000)])
    given = [small] * 2001 + [dated] * 2 + [large] * 2 + [heavy]
    parts = list(_parts(given, range(len(given))))
    assert [len(part) for part in parts] == [2000, 1, 2, 1, 1, 1]
    assert [number for part in parts for number in part] == list(range(len(given)))


async def test_a_broker_that_has_not_heard_of_the_topic_yet_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-DEL-13: a topic that was just made, by another broker than the one that delays."""
    refused: list[str] = []
    admit = StagedAdmission.admit

    def not_at_first(
        self: StagedAdmission,
        topic: str,
        partition: int,
        header: BatchHeader,
        batch: memoryview,
        opened_by: Opening,
    ) -> tuple[TopicId, memoryview, BatchHeader]:
        if len(refused) < 2:
            refused.append(topic)
            raise UnknownTopic("There is no such topic.")
        return admit(self, topic, partition, header, batch, opened_by)

    monkeypatch.setattr(StagedAdmission, "admit", not_at_first)
    monkeypatch.setattr(delayed, "_NEWS_S", 0)
    async with running() as (broker, raw), connect(broker.addresses) as mq:
        await raw.create("orders", 1)
        await mq.publish("orders", b"later", delay_s=3600)
        assert refused == ["orders", "orders"]
        async with connect(broker.addresses) as other:
            await other.admin.delete_topic("orders")
        with pytest.raises(UnknownTopic):
            await mq.publish("orders", b"later", delay_s=3600)
