"""Many clients' long work: bounded in every turn, and each gets on."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Generator

import pytest

from penstock.broker.turns import fair_turns
from penstock.broker.turns.fair_turns import FairTurns, Pieces, Work
from penstock.model.errors import CorruptLog, InternalError, PenstockError
from penstock.model.limits import FILTERED_READS_MAX


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one piece each, however fast the machine is."""
    monkeypatch.setattr(fair_turns, "_TURN_S", 0)


class Peer:
    """A client, and what waits to be sent to it."""

    def __init__(self) -> None:
        self.is_writable = True
        self.waiters: list[Callable[[], object]] = []

    @property
    def outbox(self) -> Peer:
        return self

    def when_room(self, unsent_bytes: int, then: Callable[[], None]) -> None:
        assert unsent_bytes > 0
        self.waiters.append(then)

    def read(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter()
        self.is_writable = True


class Bench:
    """Work that notes each of its pieces, and what it came to."""

    def __init__(self) -> None:
        self.turns = FairTurns()
        self.clients: defaultdict[str, Peer] = defaultdict(Peer)
        self.pieces: list[str] = []
        self.results: list[object] = []

    def begin(
        self, client: str, name: str, pieces: int, error: Exception | None = None
    ) -> Work[str]:
        def work() -> Generator[None, None, str]:
            for _ in range(pieces):
                self.pieces.append(name)
                yield
            if error is not None:
                raise error
            return name

        return self.turns.begin(
            self.clients[client], work(), self.results.append, self.results.append
        )

    async def settle(self) -> None:
        while self.turns._next is not None:
            await asyncio.sleep(0)


async def test_nobody_is_told_before_it_has_begun() -> None:
    bench = Bench()
    bench.begin("a", "work", 0)
    assert bench.results == []
    await bench.settle()
    assert bench.results == ["work"]


async def test_a_turn_is_bounded_whatever_is_asked_for() -> None:
    """R-DEL-12: other clients' calls are served in between."""
    bench = Bench()
    for number in range(100):
        bench.begin(f"client {number}", "work", 3)
    pieces = 0
    while len(bench.results) < 100:
        await asyncio.sleep(0)
        assert len(bench.pieces) - pieces <= 1
        pieces = len(bench.pieces)


async def test_pieces_that_take_little_share_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a filter costs at the worst is mostly much more than what it does."""
    monkeypatch.setattr(fair_turns, "_TURN_S", 3600)
    bench = Bench()
    for number in range(100):
        bench.begin(f"client {number}", "work", 3)
    await asyncio.sleep(0)
    assert len(bench.results) == 100


async def test_clients_take_turns_and_their_own_works_follow_one_another() -> None:
    """R-DEL-12: who asks for much does not keep others waiting for all of it."""
    bench = Bench()
    for number in range(3):
        bench.begin("greedy", f"greedy {number}", 5)
    bench.begin("modest", "modest", 5)
    await bench.settle()
    assert bench.results == ["greedy 0", "modest", "greedy 1", "greedy 2"]
    assert bench.pieces[:4] == ["greedy 0", "modest", "greedy 0", "modest"]


async def test_who_has_asked_for_more_waits_behind_those_who_have_not_begun() -> None:
    """R-DEL-12: else a few clients that always ask again would keep all others out."""
    bench = Bench()
    for number in range(2 * FILTERED_READS_MAX):
        for name in ("first", "second"):
            bench.begin(f"client {number}", name, 2)
    await bench.settle()
    half = 2 * FILTERED_READS_MAX
    assert bench.results == ["first"] * half + ["second"] * half


async def test_only_so_many_have_begun() -> None:
    """What they hold is bounded."""
    bench = Bench()
    for number in range(3 * FILTERED_READS_MAX):
        bench.begin(f"client {number}", f"work {number}", 10)
    for _ in range(10):
        await asyncio.sleep(0)
        assert len(set(bench.pieces)) <= FILTERED_READS_MAX
    await bench.settle()
    assert len(bench.results) == 3 * FILTERED_READS_MAX


async def test_what_is_cancelled_is_not_heard_of_again() -> None:
    bench = Bench()
    begun, waiting = bench.begin("a", "begun", 50), bench.begin("a", "waiting", 1)
    other = bench.begin("b", "other", 1)
    await asyncio.sleep(0)
    assert "begun" in bench.pieces
    begun.cancel()
    waiting.cancel()
    await bench.settle()
    other.cancel()
    assert bench.results == ["other"]


async def test_errors_are_told(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    theirs = CorruptLog("It is torn.")
    bench.begin("a", "theirs", 1, theirs)
    bench.begin("b", "ours", 1, ZeroDivisionError())
    bench.begin("c", "fine", 1)
    await bench.settle()
    found = {type(result) for result in bench.results if isinstance(result, PenstockError)}
    assert found == {CorruptLog, InternalError}
    assert "fine" in bench.results
    assert [record.name for record in caplog.records] == [fair_turns.__name__]


async def test_work_may_be_asked_for_by_who_is_told() -> None:
    bench = Bench()

    def again(result: object) -> None:
        bench.results.append(result)
        bench.begin("a", "second", 2)

    def first() -> Generator[None, None, str]:
        yield
        return "first"

    bench.turns.begin(bench.clients["a"], first(), again, bench.results.append)
    await bench.settle()
    assert bench.results == ["first", "second"]


async def test_a_close_ends_all_of_it() -> None:
    bench = Bench()
    for client in "abc":
        bench.begin(client, "work", 100)
        bench.begin(client, "more", 100)
    await asyncio.sleep(0)
    bench.turns.close()
    pieces = len(bench.pieces)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(bench.pieces) == pieces
    assert bench.results == []


async def test_nothing_begins_for_a_client_that_does_not_read() -> None:
    """R-DEL-12: answers are in memory until they have left, so there are few of them."""
    bench = Bench()
    bench.clients["slow"].is_writable = False
    for number in range(3):
        bench.begin("slow", f"slow {number}", 1)
    bench.begin("quick", "quick", 1)
    await bench.settle()
    assert bench.results == ["quick"]
    assert bench.turns._next is None, "and it does not spin"
    slow = bench.clients["slow"]
    assert len(slow.waiters) == 1
    for waiter in slow.waiters:
        waiter()  # some has left, and more was queued since
    slow.waiters.clear()
    await asyncio.sleep(0)
    await bench.settle()
    assert bench.results == ["quick"]
    slow.read()
    await asyncio.sleep(0)
    await bench.settle()
    assert bench.results == ["quick", "slow 0", "slow 1", "slow 2"]


async def test_a_client_that_never_read_and_left_is_forgotten() -> None:
    bench = Bench()
    bench.clients["slow"].is_writable = False
    works = [bench.begin("slow", "work", 1) for _ in range(3)]
    await bench.settle()
    for work in works:
        work.cancel()
    await bench.settle()
    assert not bench.turns._lines
    assert not bench.turns._full


class Jobs:
    """Works of which each has one job, that waits for the test."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.may_end = threading.Event()
        self.done: list[str] = []

    def begin(self, client: str, error: Exception | None = None) -> Work[str]:
        def job() -> str:
            assert self.may_end.wait(10)
            self.done.append(threading.current_thread().name)
            if error is not None:
                raise error
            return f"{client}'s"

        def work() -> Pieces[str]:
            yield None
            outcome = yield job
            assert isinstance(outcome, str)
            yield None
            return outcome

        results = self.bench.results
        return self.bench.turns.begin(
            self.bench.clients[client], work(), results.append, results.append
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.001)


async def test_a_job_is_done_by_a_thread_while_others_go_on() -> None:
    """R-DEL-12: what takes long in one go does not keep the loop."""
    bench = Bench()
    jobs = Jobs(bench)
    jobs.begin("a")
    jobs.begin("b", CorruptLog("It is torn."))
    bench.begin("a", "behind", 1)
    bench.begin("c", "other", 5)
    await bench.settle()
    assert bench.results == ["other"], "and it does not spin"
    jobs.may_end.set()
    await jobs.until(lambda: len(bench.results) == 4)
    assert {str(each) for each in bench.results} == {"other", "a's", "It is torn.", "behind"}
    assert all(name.startswith("penstock-filter") for name in jobs.done)
    bench.turns.close()


async def test_jobs_count_among_those_that_have_begun() -> None:
    bench = Bench()
    jobs = Jobs(bench)
    for number in range(FILTERED_READS_MAX):
        jobs.begin(f"client {number}")
    bench.begin("late", "late", 1)
    await bench.settle()
    assert bench.results == []
    jobs.may_end.set()
    await jobs.until(lambda: len(bench.results) == FILTERED_READS_MAX + 1)
    bench.turns.close()


async def test_who_leaves_or_closes_during_a_job_hears_nothing_of_it() -> None:
    bench = Bench()
    jobs = Jobs(bench)
    left = jobs.begin("left")
    await bench.settle()
    left.cancel()
    jobs.may_end.set()
    await jobs.until(lambda: not bench.turns._lines)
    jobs.may_end.clear()
    for client in "abc":
        jobs.begin(client)
    await bench.settle()
    bench.turns.close()
    jobs.may_end.set()
    await jobs.until(lambda: bench.turns._away_count == 0)
    assert bench.results == []
    assert bench.turns._next is None
