"""Shared groups while leaders change, writes are lost and members misbehave, from seeds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest

from tests.kit.histories.leases import shown
from tests.kit.runs.tiers import seeds
from tests.kit.simulation.shared.bugs import BUGS, a_former_leader_is_not_thought_of
from tests.kit.simulation.shared.members import LEASE_MS, Connection, Member, Question
from tests.kit.simulation.shared.run import run_seed
from tests.kit.simulation.shared.world import FIRST_MEMBER, SimulatedBroker, World, live

SEEDS_WITH_BUG_MAX = 150
SEEDS = int(os.environ.get("SHARE_SEEDS", "150"))
PARTS = 5


@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_is_kept(part: int) -> None:
    """R-DEL-3, R-DEL-11: one holder at a time, acknowledged ones never again, each at least once,
    in the order of keys."""
    for seed in seeds(SEEDS, part, PARTS):
        run_seed(seed)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_noticed(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by the checkers, within some seeds: else they would show nothing."""
    bug(monkeypatch)
    for seed in range(SEEDS_WITH_BUG_MAX):
        try:
            run_seed(seed)
        except (AssertionError, TimeoutError):
            return
    pytest.fail(f"{bug.__name__} was not noticed in {SEEDS_WITH_BUG_MAX} seeds")


@pytest.mark.parametrize("is_thought_of", [True, False])
def test_a_former_leader_that_has_not_heard_of_the_next(
    is_thought_of: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hands out, without a write that could tell it, until it sees that nobody hears it: the
    next leader waits for those leases too."""
    if not is_thought_of:
        a_former_leader_is_not_thought_of(monkeypatch)
    violations = live(0, _two_leaders).history.violations(is_over=False)
    assert bool(violations) is not is_thought_of, shown(violations)


async def _two_leaders(world: World) -> None:
    world.is_wild = False
    former, latter = world.brokers[:2]
    world.publish(50)
    assert await _lease(world, former, 1), "which raises the ceiling over all of them"
    former.partition.end_seen = world.log.next_offset
    latter.lead(2)
    assert not await _lease(world, latter, 2), "all are in doubt"
    await asyncio.sleep(LEASE_MS / 1000 * 0.4)
    assert await _lease(world, former, 3)
    former.lead_no_more(1)
    while not await _lease(world, latter, 2, messages_max=50):
        """Still in doubt."""


async def _lease(world: World, broker: SimulatedBroker, number: int, messages_max: int = 1) -> bool:
    member = Member(world, FIRST_MEMBER + number)
    question = Question(Connection(member, broker), messages_max)
    question.bytes_max = 1 << 20
    asked_s = world.loop.time()
    question.start()
    leased, waited_s = await question.answered
    member.note(leased, asked_s + waited_s)
    return bool(leased.leases)
