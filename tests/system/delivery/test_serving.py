"""`mq.serve` in a group that has its partitions, with real processes (R-DEL-6)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import penstock
from penstock import Message
from penstock.model.errors import TimedOut
from tests.kit.processes.brokers import BrokerProcess
from tests.system.clients import PATIENCE_S, publish_numbers

ROOT = Path(__file__).parents[3]
COUNT = 60
CONCURRENCY = 8


def start(address: str, output: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.system.delivery.serving_worker", address]
    words = ["orders", "billing", str(CONCURRENCY), "0.05"]
    with output.open("wb") as written:
        return subprocess.Popen([*command, *words], stdout=written, cwd=ROOT)


def events(output: Path) -> list[tuple[str, int]]:
    whole, _, _ = output.read_text().rpartition("\n")
    return [(word, int(number)) for word, number in map(str.split, whole.splitlines())]


def most_at_work(seen: list[tuple[str, int]]) -> int:
    at_work = most = 0
    for word, _ in seen:
        at_work += 1 if word == "begun" else -1
        most = max(most, at_work)
    return most


def done(output: Path) -> set[int]:
    return {number for word, number in events(output) if word == "done"}


async def test_handlers_work_at_the_same_time_and_nothing_is_lost_with_their_process(
    tmp_path: Path,
) -> None:
    """R-DEL-6: eight at a time and never more; what a killed process had not done comes again."""
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    with BrokerProcess(tmp_path / "data") as broker:
        async with asyncio.timeout(PATIENCE_S), penstock.connect(broker.address) as mq:
            await publish_numbers(mq, "orders", range(COUNT))
            worker = start(broker.address, first)
            try:
                while len(done(first)) < 20:
                    await asyncio.sleep(0.01)
            finally:
                worker.kill()
                worker.wait()
            worker = start(broker.address, second)
            try:
                while done(first) | done(second) != set(range(COUNT)):
                    await asyncio.sleep(0.01)
                while (await mq.groups.describe("billing")).lag:
                    await asyncio.sleep(0.01)
            finally:
                worker.kill()
                worker.wait()
    assert most_at_work(events(first)) == CONCURRENCY
    assert most_at_work(events(second)) <= CONCURRENCY


async def test_whoever_asked_and_has_gone_is_no_failure_of_the_handler(tmp_path: Path) -> None:
    """R-DEL-9: to do it again would help nobody, and a busy server would have more to do."""
    handled: list[bytes | None] = []
    may_reply = asyncio.Event()

    async def reply(message: Message) -> None:
        handled.append(message.value)
        await may_reply.wait()
        await message.reply(b"re " + (message.value or b""))

    with BrokerProcess(tmp_path / "data") as broker:
        async with asyncio.timeout(PATIENCE_S), penstock.connect(broker.address) as mq:
            serving = asyncio.create_task(
                mq.serve(reply, "prices", group="quotes", shared=True, concurrency=1)
            )
            gone = asyncio.create_task(mq.request("prices", b"tea", timeout=2.0))
            await asyncio.wait([gone])
            assert isinstance(gone.exception(), TimedOut)
            asking = asyncio.create_task(mq.request("prices", b"milk", timeout=PATIENCE_S))
            while not handled:
                await asyncio.sleep(0.01)
            may_reply.set()
            assert (await asking).value == b"re milk"
            while (await mq.groups.describe("quotes")).lag:
                await asyncio.sleep(0.01)
            serving.cancel()
            await asyncio.wait([serving])
            assert handled == [b"tea", b"milk"]
            assert [letter async for letter in mq.dead_letters.list("quotes")] == []
