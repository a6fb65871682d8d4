"""R-OPS-7: every verb of the asyncio client is there without asyncio, as it is or for a reason."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

import pytest

from penstock.client.admin.clients import ClientAdmin
from penstock.client.admin.cluster import ClusterAdmin
from penstock.client.admin.dead_letters import DeadLetters
from penstock.client.admin.delayed import Delayed
from penstock.client.admin.groups import GroupAdmin
from penstock.client.admin.schedules import Schedules
from penstock.client.admin.topics import Admin
from penstock.client.blocking import admin
from penstock.client.blocking.client import BlockingClient
from penstock.client.blocking.consuming import (
    BlockingConsumer,
    BlockingLeaseLedger,
    BlockingPlaceLedger,
    BlockingSharedConsumer,
)
from penstock.client.blocking.facade import (
    Facade,
    ScopeFacade,
    calls,
    iterates,
    passes,
    tells,
    waits,
    waits_unless_on_loop,
)
from penstock.client.blocking.producing import BlockingProducer, BlockingStagedWrite
from penstock.client.client import Client
from penstock.client.concurrency.loop_thread import LoopThread
from penstock.client.consuming.consumer import Consumer
from penstock.client.consuming.ledger import PlaceLedger
from penstock.client.producing.producer import Producer
from penstock.client.producing.staged_write import StagedWrite
from penstock.client.sharing.consumer import SharedConsumer
from penstock.client.sharing.ledger import LeaseLedger
from penstock.model.errors import InvalidRequest

FACES: dict[type, type] = {
    Client: BlockingClient,
    Producer: BlockingProducer,
    StagedWrite: BlockingStagedWrite,
    Consumer: BlockingConsumer,
    SharedConsumer: BlockingSharedConsumer,
    PlaceLedger: BlockingPlaceLedger,
    LeaseLedger: BlockingLeaseLedger,
    Admin: admin.BlockingAdmin,
    GroupAdmin: admin.BlockingGroupAdmin,
    ClientAdmin: admin.BlockingClientAdmin,
    ClusterAdmin: admin.BlockingClusterAdmin,
    DeadLetters: admin.BlockingDeadLetters,
    Delayed: admin.BlockingDelayed,
    Schedules: admin.BlockingSchedules,
}

MISSING = {
    "Client.range_reader": "`read_range` is made of it",
    "Producer.submit": "its future is the loop's; `publish` waits for it",
    "Producer.enqueue": "`send` is made of it",
    "Producer.accumulator": "`send` is made of it",
    "Consumer.next_hand": "iterating is made of it",
    "PlaceLedger.committer": "`acknowledge` is made of it",
    "PlaceLedger.group_counts_attempts": "`serve` takes it for False where it is not",
    "SharedConsumer.next_hand": "for `serve`, which asks the one on the loop",
    "LeaseLedger.open": "for the consumer",
    "LeaseLedger.close": "for the consumer",
    "LeaseLedger.settle": "for the consumer",
    "LeaseLedger.told": "for the consumer",
    "LeaseLedger.raise_failure": "for the consumer",
    "LeaseLedger.lost_count": "the consumer tells it",
}

DIFFERENT = {
    "Client.consumer": "what messages call is a facade already",
    "Client.share": "what messages call is a facade already",
    "Client.serve": "any handler, as it is called in threads",
}


def verbs(asked: type) -> set[str]:
    return {name for name in dir(asked) if not name.startswith("_")}


def pairs() -> Iterator[tuple[str, Any, Any]]:
    for asked, face in FACES.items():
        for name in sorted(verbs(asked) & verbs(face)):
            yield f"{asked.__name__}.{name}", getattr(asked, name), getattr(face, name)


def test_every_verb_is_there_or_is_missing_for_a_reason() -> None:
    missing = {
        f"{asked.__name__}.{name}"
        for asked, face in FACES.items()
        for name in verbs(asked) - verbs(face)
    }
    assert missing == set(MISSING)


def test_no_facade_is_left_out() -> None:
    made = {*Facade.__subclasses__(), *ScopeFacade.__subclasses__()} - {ScopeFacade}
    assert {face for face in made if face.__module__.startswith("penstock.")} == set(FACES.values())


def test_parameters_are_the_same_or_differ_for_a_reason() -> None:
    different = {
        name
        for name, verb, face in pairs()
        if callable(verb)
        and inspect.signature(verb).parameters != inspect.signature(face).parameters
    }
    assert different == set(DIFFERENT)


def test_what_a_verb_does_can_be_read_where_it_is_used() -> None:
    """In `help`; editors take it from the verb, `tests/system/test_types.py` shows."""
    untold = [name for name, verb, face in pairs() if inspect.getdoc(verb) and not face.__doc__]
    assert not untold
    shown = pydoc.plain(pydoc.render_doc(admin.BlockingAdmin))
    assert "create_topic(self, name: 'str', partitions: 'int' = 0, " in shown
    assert "Create a topic; 0 partitions or replicas: as many as the broker makes by" in shown
    assert "each(self, count: 'int') -> 'Iterator[int]'" in pydoc.plain(pydoc.render_doc(Blocking))
    assert Blocking.each.__doc__ == "One by one: `for each in asked.each(3)`."


class Asked:
    """Lives on a loop, and knows the thread."""

    async def wait(self, outcome: str, *, fail: bool = False) -> str:
        """Until it is over."""
        await asyncio.sleep(0)
        if fail:
            raise InvalidRequest(outcome)
        return outcome

    async def each(self, count: int) -> AsyncIterator[int]:
        """One by one: `async for each in asked.each(3)`."""
        for number in range(count):
            await asyncio.sleep(0)
            yield number
        if count == 3:
            raise InvalidRequest("three")

    def thread(self) -> threading.Thread:
        return threading.current_thread()

    def settle(self, settled: list[threading.Thread]) -> Awaitable[None]:
        settled.append(threading.current_thread())
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


class Blocking(Facade[Asked]):
    wait = waits(Asked.wait)
    wait_anywhere = waits_unless_on_loop(Asked.wait)
    each = iterates(Asked.each)
    there = calls(Asked.thread)
    here = passes(Asked.thread)
    settle = tells(Asked.settle)

    def on_loop(self, work: Any) -> Any:
        async def run() -> Any:
            return await work()

        return self._thread.run(run())


@pytest.fixture
def blocking() -> Iterator[Blocking]:
    with LoopThread() as thread:
        yield Blocking(thread, Asked())


def test_a_coroutine_is_waited_for(blocking: Blocking) -> None:
    assert blocking.wait("done") == "done"
    with pytest.raises(InvalidRequest, match="why"):
        blocking.wait("why", fail=True)
    assert (Blocking.wait.__name__, Blocking.wait.__doc__) == ("wait", "Until it is over.")


def test_the_loop_does_not_wait_for_itself(blocking: Blocking) -> None:
    assert blocking.wait_anywhere("done") == "done"
    assert blocking.on_loop(lambda: blocking.wait_anywhere("awaited")) == "awaited"

    async def wait() -> None:
        blocking.wait("never")

    with pytest.raises(InvalidRequest, match="cannot wait for itself"):
        blocking.on_loop(wait)


def test_an_iterator_reads_on_as_it_is_iterated(blocking: Blocking) -> None:
    assert list(blocking.each(2)) == [0, 1]
    reading = blocking.each(3)
    assert [next(reading), next(reading), next(reading)] == [0, 1, 2]
    with pytest.raises(InvalidRequest, match="three"):
        next(reading)
    with pytest.raises(StopIteration):
        next(reading)


def test_in_which_thread_a_method_runs(blocking: Blocking) -> None:
    assert blocking.here() is threading.current_thread()
    assert blocking.there() is not threading.current_thread()
    settled: list[threading.Thread] = []
    assert blocking.settle(settled) is None
    assert blocking.on_loop(lambda: blocking.settle(settled)) is None
    assert settled == [blocking.there()] * 2
