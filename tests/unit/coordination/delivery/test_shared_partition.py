"""Leases: the scenarios of tests/golden/delivery/leases, and what a scenario cannot say."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.coordination.delivery.shared_partition import SharePartition
from penstock.coordination.delivery.shared_settings import Lease, Settlement, ShareSettings
from penstock.coordination.delivery.takeover import LOST_REASON
from penstock.coordination.delivery.window.message_details import MessageDetails
from penstock.model.errors import CorruptLog, UnknownLease
from penstock.model.limits import KIB, SHARE_DELAY_MS_MAX, SHARE_REASON_CHARACTERS_MAX
from tests.golden.delivery.leases_script import LeasesScript
from tests.kit.runs.golden_files import run_golden

SCENARIOS = sorted((Path(__file__).parents[3] / "golden" / "delivery" / "leases").glob("*.txt"))
NOW_MS = 1_000_000
SETTINGS = ShareSettings(lease_ms=1_000)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    """R-DEL-3, R-DEL-9, R-DEL-11."""
    run_golden(path, LeasesScript().interpret)


def machine_with(messages: int, settings: ShareSettings = SETTINGS) -> SharePartition:
    """A group that may lease all of its messages."""
    machine = SharePartition.fresh(0, settings)
    machine.offer(0, messages, NOW_MS)
    raise_ceiling(machine, messages)
    return machine


def raise_ceiling(machine: SharePartition, to: int) -> None:
    while machine.window.ready.ceiling < to:
        for lease in machine.lease("nobody", to, NOW_MS):
            machine.settle("nobody", lease.first, lease.last, Settlement.RELEASE, NOW_MS)
        machine.durable(machine.snapshot())


def test_leasing_and_acknowledging_in_ranges_makes_no_object_for_a_message() -> None:
    """R-DEL-3: ten thousand messages are a handful of runs."""
    machine = machine_with(10_000)
    leases = [lease for _ in range(20) for lease in machine.lease("a", 500, NOW_MS)]
    assert [lease.first for lease in leases] == list(range(0, 10_000, 500))
    assert len(machine.window.runs) == 1
    for lease in leases[1::2]:
        machine.settle("a", lease.first, lease.last, Settlement.ACKNOWLEDGE, NOW_MS)
    assert len(machine.window.runs) == 20
    assert len(machine.snapshot().state) < 120


def test_what_a_member_repeats_for_ever_takes_no_memory() -> None:
    machine = machine_with(100)
    [lease] = machine.lease("a", 100, NOW_MS)
    assert lease.last == 99
    for turn in range(5_000):
        offset = turn * 7 % 100
        machine.settle("a", offset, offset, Settlement.EXTEND, NOW_MS + turn // 10)
    assert len(machine.window.timers) < 1_000
    for turn in range(5_000):
        offset = turn * 7 % 100
        machine.settle("a", offset, offset, Settlement.RELEASE, NOW_MS + 500)
        [again] = machine.lease("a", 1, NOW_MS + 500)
        assert again.first == offset
    assert len(machine.window.ready) < 1_000
    machine.check()


def test_the_largest_state_fits_into_64_kib() -> None:
    """Every message differs from its neighbours, with the longest times and reasons."""
    machine = machine_with(10_000)
    assert (
        sum(lease.last - lease.first + 1 for lease in machine.lease("a", 10_000, NOW_MS)) == 10_000
    )
    for offset in range(10_000):
        if offset % 100 == 50:
            machine.settle("a", offset, offset, Settlement.REJECT, NOW_MS, reason=f"{offset}!" * 99)
        else:
            machine.settle("a", offset, offset, Settlement.FAIL, NOW_MS)
    for offset in range(10_000):
        if offset % 100 != 50:
            [lease] = machine.lease("a", 1, NOW_MS + 600)
            delay_ms = SHARE_DELAY_MS_MAX - offset * 7_919_000 % SHARE_DELAY_MS_MAX
            first, now_ms = lease.first, NOW_MS + 600
            machine.settle("a", first, first, Settlement.RELEASE, now_ms, delay_ms=delay_ms)
    snapshot = machine.snapshot()
    assert 50_000 < len(snapshot.state) < 64 * KIB
    restored = SharePartition.restore(snapshot.state, SETTINGS, NOW_MS, 10_000)
    assert restored.counts().in_doubt == 9_900
    dead = restored.take_dead(1_000)
    assert len(dead) == 100
    assert dead[0].reason.startswith("50!50!")
    assert dead[-1].reason == LOST_REASON


def test_a_settlement_is_of_all_or_of_none() -> None:
    machine = machine_with(10)
    machine.lease("a", 5, NOW_MS)
    before = list(machine.window.runs)
    for kind in Settlement:
        with pytest.raises(UnknownLease):
            machine.settle("a", 3, 7, kind, NOW_MS)
    assert list(machine.window.runs) == before


def test_an_error_names_few_of_many_pieces() -> None:
    machine = machine_with(100)
    for offset in range(100):
        machine.lease(f"m{offset % 2}", 1, NOW_MS)
    with pytest.raises(UnknownLease) as caught:
        machine.settle("m0", 0, 99, Settlement.ACKNOWLEDGE, NOW_MS)
    assert "and 46 more" in caught.value.message
    assert len(caught.value.message) < 300


def test_dead_messages_are_told_once_and_a_few_at_a_time() -> None:
    """R-DEL-9."""
    machine = machine_with(10)
    machine.lease("a", 10, NOW_MS)
    machine.settle("a", 0, 9, Settlement.REJECT, NOW_MS, reason="x" * 10_000)
    told = [[dead.offset for dead in machine.take_dead(4)] for _ in range(4)]
    assert told == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]
    machine.buried(9)
    machine.buried(9)
    machine.not_buried(9, NOW_MS)
    assert machine.counts().dead_total == 1
    [(_, _, state)] = list(machine.window.runs)[:1]
    assert len(state.reason) == SHARE_REASON_CHARACTERS_MAX


def test_details_of_keys_do_not_matter_where_there_is_no_order() -> None:
    machine = SharePartition.fresh(0, SETTINGS)
    machine.offer(0, 2, NOW_MS, details=[MessageDetails(0, key=1), MessageDetails(1, key=1)])
    raise_ceiling(machine, 2)
    assert machine.lease("a", 5, NOW_MS) == [Lease(0, 1, 1)]


def test_an_offer_that_does_not_fit_is_cut() -> None:
    machine = SharePartition.fresh(0, ShareSettings(window_max=10))
    details = [MessageDetails(12, priority=9)]
    machine.offer(0, 25, NOW_MS, skipped=[(0, 4), (8, 20)], details=details)
    assert (machine.start, machine.wanted) == (4, 10)
    machine.offer(10, 25, NOW_MS, skipped=[(8, 20)])
    assert (machine.start, machine.wanted) == (4, None)
    assert machine.lag(25) == 21 - 6


@pytest.mark.parametrize("messages_max", [0, -5])
def test_a_lease_of_nothing_is_nothing(messages_max: int) -> None:
    machine = machine_with(10)
    assert machine.window.ready.next() is not None
    assert machine.lease("a", messages_max, NOW_MS) == []


def test_a_state_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(CorruptLog):
        SharePartition.restore(b"\x01\xff", SETTINGS, NOW_MS, 0)
