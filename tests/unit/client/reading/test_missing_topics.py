"""Readers that come before their topics: they wait, and say so where that looks like a mistake."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.client.client import Client, connect
from penstock.client.reading import missing_topics
from penstock.model.errors import InvalidConfig, UnknownTopic
from penstock.records import Message
from tests.kit.broker.running import running


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[Client, Client]]:
    """Two, so that none knows by itself what the other has made."""
    async with (
        running() as (broker, _),
        connect(broker.addresses) as mq,
        connect(broker.addresses) as other,
    ):
        yield mq, other


async def names(mq: Client) -> list[str]:
    found = [topic.name for topic in await mq.admin.list_topics()]
    return [name for name in found if not name.startswith("__")]


KINDS: list[dict[str, Any]] = [
    {},
    {"push": True},
    {"group": "billing"},
    {"group": "billing", "start": "latest"},
    {"group": "billing", "partitions": [0]},
    {"group": "billing", "shared": True},
]


@pytest.mark.parametrize("settings", KINDS, ids=str)
async def test_a_reader_makes_no_topic_and_gets_its_first_message(settings: dict[str, Any]) -> None:
    """R-CORE-4: whoever comes first, reader or writer; and a misspelt name makes nothing."""
    async with (
        running() as (broker, _),
        connect(broker.addresses) as mq,
        connect(broker.addresses) as writer,
    ):
        shared = settings.pop("shared", False)
        consumer: Any = (mq.share if shared else mq.subscribe)("orders", **settings)

        async def read() -> bytes | None:
            found: list[Message] = []
            async with consumer:
                while not found:
                    found = await consumer.fetch(1)
            return found[0].value

        reading = asyncio.create_task(read())
        await asyncio.wait([reading], timeout=0.1)
        assert await names(writer) == []
        await writer.publish("orders", b"tea")
        async with asyncio.timeout(10):
            assert await reading == b"tea"


@pytest.mark.parametrize("shared", [True, False])
async def test_after_a_moment_it_warns_with_the_name_that_may_be_meant(
    shared: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """R-OPS-5: once, and not in silence for ever."""
    monkeypatch.setattr(missing_topics, "_TOLD_AFTER_S", 0.0)
    async with connected() as (mq, _):
        await mq.admin.create_topic("orders")
        consumer = (mq.share if shared else mq.subscribe)("ordres", group="billing")
        async with consumer:
            assert await consumer.fetch(timeout_s=0.5) == []
        assert await names(mq) == ["orders"]
    told = [each for each in caplog.messages if "There is no topic" in each]
    expected = (
        "There is no topic 'ordres' (did you mean 'orders'?): waiting until somebody makes it."
    )
    assert told == [expected]


@pytest.mark.parametrize("shared", [True, False])
async def test_it_can_be_an_error_or_make_the_topic(shared: bool) -> None:
    async with connected() as (mq, _):
        await mq.admin.create_topic("orders")
        make = mq.share if shared else mq.subscribe
        with pytest.raises(UnknownTopic, match=r"no topic 'ordres' \(did you mean 'orders'\?\)"):
            await make("ordres", group="billing", on_missing_topic="error").__aenter__()
        async with make("more", group="audit", on_missing_topic="create"):
            assert "more" in await names(mq)
        with pytest.raises(InvalidConfig, match="on_missing_topic is 'warn': it can be \"wait\""):
            make("more", group="audit", on_missing_topic="warn")  # type: ignore[arg-type]


async def test_describing_names_what_may_be_meant() -> None:
    """So do `penstock topics describe` and `penstock consume`, which ask for it."""
    async with connected() as (mq, _):
        await mq.admin.create_topic("orders")
        with pytest.raises(UnknownTopic, match=r"Did you mean 'orders'\?$"):
            await mq.admin.describe_topic("ordres")


async def test_waiting_asks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are missing, one question at a time, at growing intervals."""
    async with connected() as (mq, _):
        questions: list[list[str]] = []
        metadata = mq._routes().metadata

        async def counted(topics: Any = (), **arguments: Any) -> Any:
            questions.append(list(topics))
            return await metadata(topics, **arguments)

        monkeypatch.setattr(mq._routes(), "metadata", counted)
        async with mq.subscribe(*(f"topic-{number}" for number in range(50))):
            await asyncio.sleep(0.5)
        assert 1 <= len(questions) <= 6
        assert all(len(question) == 50 for question in questions)
