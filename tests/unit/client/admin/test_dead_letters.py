"""Dead letters as their users see them, on a real broker: found, put back, dropped (R-DEL-9)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import pytest

from penstock.client.admin import redriving
from penstock.client.admin.redriving import LetterOutcome
from penstock.client.client import Client, connect
from penstock.model.dead_letter import Headers, SourceMessage, dead_letter_topic, write_dead_letter
from penstock.model.errors import InvalidRequest
from penstock.model.message_headers import EXPIRES_MS, REDRIVES
from penstock.records import Message
from tests.kit.broker.running import running

GROUP = "workers"
DIED_MS = 1_700_000_000_000


@contextlib.asynccontextmanager
async def letters_of(
    count: int = 3, *, topic: str = "jobs", group: str = GROUP
) -> AsyncIterator[Client]:
    """A group with so many letters, dead a second apart, of a topic with two partitions."""
    async with running() as (broker, raw), connect(broker.addresses) as mq:
        await raw.create(topic, 2)
        await raw.create(dead_letter_topic(group), 1, cleanup_policy="compact")
        for number in range(count):
            await bury(mq, number, topic=topic, group=group)
        yield mq


async def bury(
    mq: Client,
    offset: int,
    *,
    topic: str = "jobs",
    group: str = GROUP,
    reason: str = "TimeoutError: too slow",
    headers: Headers = (("trace", b"1"),),
    value: bytes | None = b"value",
    partition: int = 1,
) -> None:
    source = SourceMessage(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=1,
        key=b"key-%d" % offset,
        value=value,
        headers=headers,
    )
    died_ms = DIED_MS + offset * 1000
    key, content, told = write_dead_letter(source, group, reason, 5, died_ms)
    await mq.publish(dead_letter_topic(group), content, key, headers=told, timestamp_ms=died_ms)


async def ids(mq: Client, **filters: object) -> list[str]:
    return [one.id async for one in mq.dead_letters.list(GROUP, **filters)]  # type: ignore[arg-type]


async def published(mq: Client, topic: str = "jobs") -> list[Message]:
    async with mq.subscribe(topic) as consumer:
        found: list[Message] = []
        while messages := await consumer.fetch(timeout_s=0.1):
            found += messages
        return found


async def records(mq: Client) -> int:
    return await mq.admin.find_offset(dead_letter_topic(GROUP), 0, "latest")


async def test_letters_are_listed_with_all_that_is_known() -> None:
    async with letters_of(2) as mq:
        first, second = [one async for one in mq.dead_letters.list(GROUP)]
        assert (first.id, second.id) == ("jobs/1/0", "jobs/1/1")
        assert (second.topic, second.partition, second.offset) == ("jobs", 1, 1)
        assert (second.key, second.value, second.headers) == (
            b"key-1",
            b"value",
            (("trace", b"1"),),
        )
        assert (second.reason, second.attempts, second.redrives) == ("TimeoutError: too slow", 5, 0)
        assert second.dead_at_ms == DIED_MS + 1000
        assert await mq.dead_letters.show(GROUP, "jobs/1/1") == second
        with pytest.raises(InvalidRequest, match="no dead letter 'jobs/1/2'"):
            await mq.dead_letters.show(GROUP, "jobs/1/2")


async def test_filters_all_hold() -> None:
    async with letters_of(3) as mq:
        await bury(mq, 7, topic="mails", reason="ValueError: no address")
        assert await ids(mq, topic="mails") == ["mails/1/7"]
        assert await ids(mq, reason="TIMEOUT", limit=2) == ["jobs/1/0", "jobs/1/1"]
        assert await ids(mq, key=b"key-2") == ["jobs/1/2"]
        since = datetime.fromtimestamp(DIED_MS / 1000 + 1, UTC)
        until = datetime.fromtimestamp(DIED_MS / 1000 + 7, UTC)
        assert await ids(mq, since=since, until=until) == ["jobs/1/1", "jobs/1/2"]
        assert await ids(mq, topic="mails", reason="timeout") == []
        with pytest.raises(InvalidRequest, match="limit is 0"):
            await ids(mq, limit=0)


async def test_of_each_id_the_last_record_counts_and_strangers_do_not() -> None:
    """R-DEL-9: a message that was buried twice is one letter."""
    async with letters_of(2) as mq:
        await bury(mq, 0, reason="buried again")
        topic = dead_letter_topic(GROUP)
        await mq.publish(topic, None, b"jobs/1/1")
        await mq.publish(topic, b"nonsense", b"nonsense")
        found = [one async for one in mq.dead_letters.list(GROUP)]
        assert [(one.id, one.reason) for one in found] == [("jobs/1/0", "buried again")]
        assert [one.count for one in await mq.dead_letters.groups()] == [1]


async def test_a_group_without_letters_has_none() -> None:
    async with letters_of(0) as mq:
        assert await ids(mq) == []
        assert [one async for one in mq.dead_letters.list("nobody")] == []
        assert (await mq.dead_letters.redrive("nobody")).total == 0
        assert await mq.dead_letters.groups() == []


async def test_groups_and_how_many_letters_they_have() -> None:
    long = "ü" * 200  # too long for a topic's name: the letters know it
    async with letters_of(3) as mq:
        await mq.admin.create_topic(dead_letter_topic(long), 1, {"cleanup_policy": "compact"})
        await bury(mq, 5, group=long)
        await mq.dead_letters.drop(GROUP, ["jobs/1/0"])
        found = [(one.group, one.count) for one in await mq.dead_letters.groups()]
        assert found == [(GROUP, 2), (long, 1)]
        [workers, _] = await mq.dead_letters.groups()
        assert (workers.oldest_at_ms, workers.newest_at_ms) == (DIED_MS + 1000, DIED_MS + 2000)


# --- putting back ------------------------------------------------------------------------------


async def test_a_redriven_message_is_back_in_its_partition_and_its_letter_gone() -> None:
    async with letters_of(3) as mq:
        summary = await mq.dead_letters.redrive(GROUP, ["jobs/1/0", "jobs/1/2", "jobs/1/9"])
        assert (summary.redriven, summary.total, summary.missing) == (2, 2, ["jobs/1/9"])
        back = await published(mq)
        assert [(one.partition, one.key) for one in back] == [(1, b"key-0"), (1, b"key-2")]
        assert back[0].headers == (("trace", b"1"), (REDRIVES, b"1"))
        assert back[0].value == b"value"
        assert await ids(mq) == ["jobs/1/1"]


async def test_what_was_marked_as_deleted_goes_back_as_that_and_expiries_that_passed_do_not() -> (
    None
):
    async with letters_of(0) as mq:
        await bury(mq, 0, value=None, headers=((EXPIRES_MS, b"1"),))
        await mq.dead_letters.redrive(GROUP)
        [back] = await published(mq)
        assert (back.value, back.headers) == (None, ((REDRIVES, b"1"),))


async def test_a_dry_run_says_what_would_be_done_and_changes_nothing() -> None:
    async with letters_of(3) as mq:
        told: list[LetterOutcome] = []
        summary = await mq.dead_letters.redrive(GROUP, dry_run=True, on_outcome=told.append)
        assert (summary.is_dry_run, summary.redriven, len(told)) == (True, 3, 3)
        summary = await mq.dead_letters.drop(GROUP, everything=True, dry_run=True)
        assert (summary.is_dry_run, summary.dropped) == (True, 3)
        assert await published(mq) == []
        assert (await records(mq), len(await ids(mq))) == (3, 3)


async def test_what_was_redriven_twice_is_left_alone_unless_forced() -> None:
    """R-DEL-9: the loop guard."""
    async with letters_of(1) as mq:
        await bury(mq, 5, headers=((REDRIVES, b"2"),))
        for dry_run in (True, False):
            summary = await mq.dead_letters.redrive(GROUP, dry_run=dry_run)
            assert (summary.redriven, summary.guarded) == (1, 1)
            [problem] = summary.problems
            assert problem.letter.id == "jobs/1/5"
            assert "redriven 2 times" in problem.problem
        assert await ids(mq) == ["jobs/1/5"]
        assert (await mq.dead_letters.redrive(GROUP, force=True)).redriven == 1
        assert (await published(mq))[-1].headers == ((REDRIVES, b"3"),)


async def test_letters_of_topics_that_are_gone_are_told_of_one_by_one() -> None:
    """Deleted topics are not made anew by their dead letters."""
    async with letters_of(1) as mq:
        await bury(mq, 1, topic="gone")
        await bury(mq, 2, partition=9)  # a partition that is gone: by key
        summary = await mq.dead_letters.redrive(GROUP)
        assert (summary.redriven, summary.failed) == (2, 1)
        assert summary.problems[0].letter.id == "gone/1/1"
        assert "gone" not in [one.name for one in await mq.admin.list_topics()]
        assert len(await published(mq)) == 2
        assert await ids(mq) == ["gone/1/1"]
        await mq.admin.create_topic("elsewhere", 1)
        assert (await mq.dead_letters.redrive(GROUP, to_topic="elsewhere")).redriven == 1
        assert [one.key for one in await published(mq, "elsewhere")] == [b"key-1"]


async def test_a_topic_that_another_producer_has_takes_nothing() -> None:
    async with letters_of(0, topic="other") as mq:
        await mq.admin.create_topic("ledger", 1, {"exclusive_producer": "yes"})
        await bury(mq, 1, topic="ledger", partition=0)
        async with mq.producer(exclusive="refuse") as owner:
            await owner.claim("ledger")
            summary = await mq.dead_letters.redrive(GROUP)
        assert (summary.failed, await ids(mq)) == (1, ["ledger/0/1"])


async def test_letters_are_not_put_where_they_would_be_none() -> None:
    """R-DEL-9: among dead letters nobody would find the message again."""
    async with letters_of(1) as mq:
        with pytest.raises(InvalidRequest, match="give another topic"):
            await mq.dead_letters.redrive(GROUP, to_topic=dead_letter_topic(GROUP))
        assert await ids(mq) == ["jobs/1/0"]


async def test_one_id_may_be_named_alone() -> None:
    async with letters_of(2) as mq:
        assert (await mq.dead_letters.redrive(GROUP, "jobs/1/0")).redriven == 1
        assert (await mq.dead_letters.drop(GROUP, "jobs/1/1")).dropped == 1
        assert await ids(mq) == []


async def test_a_rate_is_kept_to() -> None:
    async with letters_of(5) as mq:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assert (await mq.dead_letters.redrive(GROUP, rate_per_s=50)).redriven == 5
        assert loop.time() - began_s >= 4 / 50
        for rate in (0, -1, float("nan"), float("inf")):
            with pytest.raises(InvalidRequest, match="The rate is"):
                await mq.dead_letters.redrive(GROUP, rate_per_s=rate)


async def test_many_letters_go_back_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redriving, "WINDOW_LETTERS", 4)
    async with letters_of(10) as mq:
        assert (await mq.dead_letters.redrive(GROUP)).redriven == 10
        assert [one.key for one in await published(mq)] == [b"key-%d" % at for at in range(10)]
        assert await ids(mq) == []


async def test_a_letter_whose_message_is_not_acknowledged_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At least once: the mark that it is gone is written after the acknowledgement."""
    async with letters_of(2) as mq:

        async def crash(*_: object) -> None:
            raise ConnectionError("killed")

        with monkeypatch.context() as patched:
            patched.setattr(redriving, "mark_gone", crash)
            with pytest.raises(ConnectionError):
                await mq.dead_letters.redrive(GROUP)
        assert len(await ids(mq)) == 2
        assert (await mq.dead_letters.redrive(GROUP)).redriven == 2
        assert len(await published(mq)) == 4


# --- dropping ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "filters", "left"),
    [
        (["jobs/1/0", "jobs/1/2"], {}, ["jobs/1/1"]),
        (None, {"key": b"key-1"}, ["jobs/1/0", "jobs/1/2"]),
        (None, {"everything": True}, []),
    ],
)
async def test_dropped_letters_are_gone(
    which: Sequence[str] | None, filters: dict[str, object], left: list[str]
) -> None:
    async with letters_of(3) as mq:
        summary = await mq.dead_letters.drop(GROUP, which, **filters)  # type: ignore[arg-type]
        assert summary.dropped == 3 - len(left)
        assert await ids(mq) == left
        assert await published(mq) == []


async def test_nothing_is_dropped_unless_it_is_said_which() -> None:
    async with letters_of(1) as mq:
        with pytest.raises(InvalidRequest, match="everything=True"):
            await mq.dead_letters.drop(GROUP, topic=None)
        assert (await mq.dead_letters.drop(GROUP, [])).dropped == 0
        assert len(await ids(mq)) == 1
