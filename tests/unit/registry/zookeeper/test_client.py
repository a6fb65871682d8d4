"""The parts of the registry on ZooKeeper that need none: the controller's lease, and what is stale.
The rest is shown against a real one, in tests/system."""

from __future__ import annotations

from penstock.registry.zookeeper.client import _Lease, _StalePaths


def held(lease: _Lease) -> bool:
    return lease.is_held


class StandingClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)


def test_a_lease_counts_from_before_the_question() -> None:
    """R-REP-4: the answer may have been long on its way, while the session's time ran."""
    clock = StandingClock()
    lease = _Lease(clock, 3.0)
    assert not held(lease)
    attempt = lease.begin_attempt()
    clock.now_s += 2
    lease.extend(attempt)
    assert held(lease)
    clock.now_s += 1
    assert not held(lease)


def test_an_answer_from_before_the_connection_was_lost_is_none() -> None:
    lease = _Lease(StandingClock(), 3.0)
    lease.extend(lease.begin_attempt())
    attempt = lease.begin_attempt()
    lease.end()
    assert not held(lease)
    lease.extend(attempt)
    assert not held(lease)
    lease.extend(lease.begin_attempt())
    assert held(lease)


def test_stale_paths_are_gathered_until_they_are_taken() -> None:
    stale = _StalePaths()
    assert stale.add("/topics/a")
    assert not stale.add("/topics/b"), "the thread is told once"
    assert not stale.add("/topics/a")
    assert stale.take() == ["/topics/a", "/topics/b"]
    assert stale.take() == []
    assert stale.add("/topics/a")
    stale.add_everything()
    assert stale.take() is None
    assert stale.take() == []
