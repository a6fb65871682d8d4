"""Decided, durable, answered: in that order, whatever fails (R-DEL-10)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
import uvloop

from penstock.broker.groups import coordinator as group_coordinator
from penstock.broker.groups import snapshot as group_snapshot
from penstock.broker.groups.log import GroupLog
from penstock.coordination.group.classic.messages import GroupState, JoinAnswer
from penstock.coordination.group.coordinator import Coordinator
from penstock.coordination.group.effects import Effects, Ticket
from penstock.coordination.group.exclusivity import NOBODY
from penstock.model.errors import (
    CoordinatorLoading,
    DiskFull,
    InternalError,
    NotCoordinator,
    PenstockError,
    ShuttingDown,
    StorageFailed,
)
from tests.kit.broker.groups import Gate, living
from tests.kit.broker.running import ManualClock
from tests.kit.simulated_disk import SimulatedDisk


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_answers_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of questions: nobody is told what a crash could take back."""
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        gate = Gate(monkeypatch)
        answers: list[object] = []
        life.start_commit(answers.append, "g", 2)
        found = asyncio.create_task(life.offset("g"))
        await turns()
        assert answers == []
        assert not found.done()
        gate.open.set()
        assert await found == 2
        assert answers == [None]


async def test_what_comes_while_the_disk_is_busy_travels_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 0)
        log = life.partitions.find("__offsets", 0).replica.log
        before = len(list(log.headers(0)))
        gate = Gate(monkeypatch)
        commits = [asyncio.create_task(life.commit("g", number)) for number in range(1, 100)]
        await turns()
        gate.open.set()
        await asyncio.gather(*commits)
        assert len(list(log.headers(0))) - before == 2
        assert await life.offset("g") == 99


async def test_what_is_asked_in_an_answer_waits_for_what_was_asked_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection is read again when it is answered, while others still wait to be."""
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 0)
        gate = Gate(monkeypatch)
        order: list[str] = []
        done = asyncio.Event()

        def first(what: object) -> None:
            assert what is None
            order.append("first")
            life.groups.ask(last, lambda groups: groups.fetch("g").get("orders", 0))

        def last(what: object) -> None:
            order.append("last")
            done.set()

        life.start_commit(first, "g", 1)
        life.start_commit(lambda _: order.append("second"), "g", 2)
        gate.open.set()
        async with asyncio.timeout(5):
            await done.wait()
        assert order == ["first", "second", "last"]


async def test_a_question_without_anything_before_it_is_answered_at_once() -> None:
    async with living(SimulatedDisk()) as life:
        answers: list[object] = []
        life.groups.ask(answers.append, lambda groups: groups.list())
        assert answers == [[]]


async def test_a_write_that_fails_takes_back_what_was_decided() -> None:
    """And whoever waits hears of it, also members that wait for others."""
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.commit("g", 1)
        joins: list[object] = []
        life.start_join(joins.append, "others")
        disk.capacity_bytes = sum(map(len, disk.files().values())) + 20
        with pytest.raises(DiskFull):
            await life.commit("g", 2)
        assert [type(what) for what in joins] == [DiskFull]
        assert await life.offset("g") == 1
        disk.capacity_bytes = None
        await life.commit("g", 3)
    async with living(disk) as life:
        assert await life.offset("g") == 3


async def test_groups_are_not_read_again_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_coordinator, "_RELOAD_INTERVAL_S", 0.01)
    disk = SimulatedDisk()
    async with living(disk, group_initial_rebalance_delay_ms=0) as life:
        await life.commit("g", 1)
        disk.capacity_bytes = sum(map(len, disk.files().values())) + 20
        for _ in range(2):
            with pytest.raises(DiskFull):
                await life.commit("g", 2)
        with pytest.raises(CoordinatorLoading, match=r"not be written: .* is full"):
            await life.offset("g")
        with pytest.raises(CoordinatorLoading, match=r"not be written: .* is full"):
            await life.commit("g", 2)
        async with asyncio.timeout(5):
            while True:
                with contextlib.suppress(CoordinatorLoading):
                    assert await life.offset("g") == 1
                    break
                await asyncio.sleep(0)
        disk.capacity_bytes = None
        await life.commit("g", 3)
        joined = await life.answered(lambda answer: life.start_join(answer, "members"))
        assert isinstance(joined, JoinAnswer), "time goes on"


async def test_a_topic_that_cannot_be_made_is_an_answer() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        disk.fail_next("create")
        with pytest.raises(PenstockError):
            await life.commit("g", 1)
        await life.commit("g", 2)
        assert await life.offset("g") == 2


async def test_after_a_failed_flush_what_is_committed_can_be_read() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.commit("g", 1)
        disk.fail_next("flush")
        with pytest.raises(StorageFailed):
            await life.commit("g", 2)
        assert await life.offset("g") == 1
        with pytest.raises(StorageFailed, match="read-only"):
            await life.commit("g", 3)
    async with living(disk) as life:
        assert await life.offset("g") == 1
        await life.commit("g", 4)


async def test_a_bug_costs_what_is_in_memory_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        gate = Gate(monkeypatch)
        commit = asyncio.create_task(life.commit("g", 2))
        await turns()

        def wrong(groups: Coordinator, now_ms: int) -> Effects:
            del groups, now_ms
            raise KeyError

        with pytest.raises(InternalError):
            await life.answered(lambda answer: life.groups.submit(answer, wrong))
        with pytest.raises(InternalError):
            await commit
        with pytest.raises(CoordinatorLoading):
            await life.offset("g")
        gate.open.set()
        async with asyncio.timeout(5):
            while life.log._is_writing:
                await asyncio.sleep(0)
        assert await life.offset("g") == 2, "what was on its way has arrived"
        assert "nobody foresaw" in caplog.text


async def test_time_goes_on() -> None:
    """The first generation begins when the delay is over, and a silent member is removed."""
    clock = ManualClock()
    async with living(SimulatedDisk(), clock, group_initial_rebalance_delay_ms=50) as life:
        joins: list[object] = []
        life.start_join(joins.append)
        assert joins == []
        clock.time_ms += 50
        life.groups._expire()
        assert [type(what) for what in joins] == [JoinAnswer]
        clock.time_ms += 20_000
        life.groups._expire()
        state = await life.answered(
            lambda answer: life.groups.ask(
                answer, lambda groups: groups.describe_classic("g").state
            )
        )
        assert state is GroupState.EMPTY


async def test_the_timer_wakes_it() -> None:
    async with living(SimulatedDisk(), group_initial_rebalance_delay_ms=0) as life:
        joined = await life.answered(lambda answer: life.start_join(answer))
        assert isinstance(joined, JoinAnswer)


def test_the_timer_of_uvloop_does_too() -> None:
    """Where something is due at once its handle has no time: who asks next must not need it."""

    async def two_join() -> object:
        async with living(SimulatedDisk(), group_initial_rebalance_delay_ms=0) as life:
            life.start_join(lambda _: None, "first")
            return await life.answered(lambda answer: life.start_join(answer, "second"))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert isinstance(runner.run(two_join()), JoinAnswer)


async def test_nobody_waits_for_others_when_the_broker_stops() -> None:
    async with living(SimulatedDisk()) as life:
        joins: list[object] = []
        life.start_join(joins.append)
        life.groups.begin_closing()
        life.start_join(joins.append, "later")
        assert [type(what) for what in joins] == [ShuttingDown, ShuttingDown]
        await life.commit("simple", 1)


async def test_an_answer_that_fails_does_not_cost_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with living(SimulatedDisk()) as life:

        def fail(what: object) -> None:
            raise KeyError(what)

        life.start_commit(fail, "g", 1)
        await life.commit("g", 2)
        assert "could not be given" in caplog.text


async def test_topics_are_seen_as_they_are() -> None:
    async with living(SimulatedDisk()) as life:
        facts = life.groups.topic_facts()
        assert facts["orders"].partition_count == 4
        assert life.groups.topic_facts() is facts
        await life.topics.add_partitions("orders", 5)
        assert life.groups.topic_facts()["orders"].partition_count == 5
        assert life.groups.topic_id("orders") == facts["orders"].topic_id
        assert life.groups.topic_id("nowhere") is None


async def test_damage_is_told_and_not_hidden() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        for offset in range(5):
            await life.commit("g", offset)
        crashed = disk.after_crash("lost")
    [path] = [path for path in crashed.files() if "__offsets" in path and path.endswith(".log")]
    crashed.flip_bit(path, 100, 3)
    async with living(crashed) as life:
        with pytest.raises(StorageFailed, match="Groups cannot be served"):
            await life.offset("g")
        with pytest.raises(StorageFailed, match="Groups cannot be served"):
            await life.commit("g", 1)


# --- one broker looks after the groups -----------------------------------------------------------


async def test_whoever_begins_to_lead_reads_what_others_wrote() -> None:
    """R-REP-2: another broker takes over, and nothing that was acknowledged is lost."""
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        life.lose()
        await life.commit_elsewhere("g", 2)
        await life.commit_elsewhere("h", 7)
        life.gain()
        await turns()
        assert [await life.offset(group) for group in "gh"] == [2, 7]
        await life.commit("g", 3)
        assert await life.offset("g") == 3


async def test_where_another_leads_everybody_is_sent_on() -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        life.lose()
        for _ in range(2):
            with pytest.raises(NotCoordinator):
                await life.offset("g")
            with pytest.raises(NotCoordinator):
                await life.commit("g", 2)
            await turns()
        assert life.groups._groups is None
        assert life.groups._timer is None, "time is the other's affair too"


async def test_members_that_wait_are_told_when_the_broker_no_longer_leads() -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        joins: list[object] = []
        life.start_join(joins.append, "others")
        life.lose()
        await turns()
        assert [type(what) for what in joins] == [NotCoordinator]


async def test_a_write_that_a_change_of_leaders_cuts_short_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody knows whether it will be read again; whoever asks the next leader finds out."""
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        gate = Gate(monkeypatch)
        answers: list[object] = []
        life.start_commit(answers.append, "g", 2)
        life.start_commit(lambda what: answers.append(what), "g", 3)
        life.lose()
        await turns()
        assert [type(what) for what in answers] == [NotCoordinator, NotCoordinator]
        gate.open.set()
        life.gain()
        await turns()
        assert await life.offset("g") in (1, 2)


async def test_what_is_decided_on_what_was_known_in_another_term_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lost and gained again before anybody was told: others may have written in between."""
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        end_offset = life.partitions.find("__offsets", 0).replica.log.next_offset
        life.lose()
        life.gain()
        with pytest.raises(CoordinatorLoading):
            await life.commit("g", 2)
        assert life.partitions.find("__offsets", 0).replica.log.next_offset == end_offset
        await turns()
        assert await life.offset("g") == 1


async def test_much_is_read_in_turns_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_snapshot, "_SLICE_RECORDS", 1)
    async with living(SimulatedDisk()) as life:
        for offset in range(10):
            await life.commit("g", offset)
        life.lose()
        life.gain()
        await turns(4)
        with pytest.raises(CoordinatorLoading, match="being read"):
            await life.offset("g")
        await turns(20)
        assert await life.offset("g") == 9


async def test_reading_ends_when_another_begins_to_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_snapshot, "_SLICE_RECORDS", 1)
    async with living(SimulatedDisk()) as life:
        for offset in range(10):
            await life.commit("g", offset)
        life.lose()
        life.gain()
        await turns(4)
        life.lose()
        await turns(20)
        with pytest.raises(NotCoordinator):
            await life.offset("g")
        await life.commit_elsewhere("g", 11)
        life.gain()
        await turns(30)
        assert await life.offset("g") == 11


async def test_damage_is_looked_at_again_by_whoever_begins_to_lead() -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        life.groups._groups = None
        life.groups._failure = StorageFailed("Groups cannot be served")
        life.lose()
        await turns()
        life.gain()
        await turns()
        assert await life.offset("g") == 1


async def test_a_topic_that_somebody_else_makes_meanwhile() -> None:
    """Before there is a topic every broker may be asked; only its leader keeps what it decides."""
    async with living(SimulatedDisk()) as life:
        assert await life.offset("g") is None
        joins: list[object] = []
        life.start_join(joins.append)
        await life.log.make()
        await turns()
        assert [type(what) for what in joins] == [NotCoordinator]
        await life.commit("g", 1)
        assert await life.offset("g") == 1


async def test_who_may_have_been_replaced_makes_sure_before_it_answers_who_may_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-CORE-6: by a record that only the coordinator can write; alone it need not."""
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        log = life.partitions.find("__offsets", 0).replica.log

        def ask(answer: Ticket[Any]) -> None:
            life.groups.submit(
                answer, lambda groups, _: groups.table.exclusive_topics.check(answer, "id")
            )

        end_offset = log.next_offset
        assert await life.answered(ask) == NOBODY
        assert log.next_offset == end_offset
        monkeypatch.setattr(GroupLog, "is_alone", False)
        gate = Gate(monkeypatch)
        answers: list[object] = []
        for _ in range(3):
            ask(lambda what: answers.append(what))  # each is asked by another
        await turns()
        assert answers == []
        assert log.next_offset == end_offset + 1
        gate.open.set()
        async with asyncio.timeout(5):
            while len(answers) < 3:
                await asyncio.sleep(0)
        assert answers == [NOBODY] * 3
        # What came while the first was on its way needed one more, for all of them.
        assert log.next_offset == end_offset + 2


async def test_a_coordinator_that_was_replaced_does_not_say_who_may_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-CORE-6: it cannot know whom its successor let in."""
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        monkeypatch.setattr(GroupLog, "is_alone", False)
        gate = Gate(monkeypatch)
        asking = asyncio.create_task(
            life.answered(
                lambda answer: life.groups.submit(
                    answer, lambda groups, _: groups.table.exclusive_topics.check(answer, "id")
                )
            )
        )
        await turns()
        life.lose()
        gate.open.set()
        with pytest.raises(NotCoordinator):
            await asking
