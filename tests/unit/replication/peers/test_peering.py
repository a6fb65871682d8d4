"""A broker among others: which parcels reach its replicas, and that its timer is never late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.model.errors import InvalidRequest
from penstock.model.ids import PartitionId, TopicId
from penstock.raft.membership import Node
from penstock.replication.disk.driver import Driver
from penstock.replication.parcels.parcel import Heartbeat, Parcel
from penstock.replication.peers.peering import Peering
from tests.kit.broker.running import ManualClock

ME, PEER = Node(1, 11), Node(2, 22)
TICK_MS = 200


class Loop:
    """Timers that the test calls."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self.timers = [timer for timer in self.timers if not timer.is_over]
        self.timers.append(Timer(delay_s, callback))
        return self.timers[-1]

    @property
    def next_ms(self) -> int:
        (timer,) = (timer for timer in self.timers if not timer.is_over)
        return round(timer.delay_s * 1000)

    def fire(self) -> None:
        (timer,) = (timer for timer in self.timers if not timer.is_over)
        timer.is_over = True
        timer.callback()


class Timer:
    def __init__(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.delay_s = delay_s
        self.callback = callback
        self.is_over = False

    def cancel(self) -> None:
        self.is_over = True


class Setup:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock(10_000)
        self.loop = Loop()
        self.runs: list[int] = []
        self.peering = Peering(
            ME, lambda: "c1", Driver(), self.clock, incarnation=5, tick_ms=TICK_MS
        )
        run_due = self.peering.replicas.run_due

        def run(now_ms: int) -> None:
            self.runs.append(now_ms)
            run_due(now_ms)

        monkeypatch.setattr(self.peering.replicas, "run_due", run)
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self.loop)
        self.peering.start()
        monkeypatch.undo()
        monkeypatch.setattr(self.peering.replicas, "run_due", run)

    def fire_after(self, ms: int) -> None:
        self.clock.time_ms += ms
        self.loop.fire()


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Setup:
    return Setup(monkeypatch)


def test_it_wakes_at_each_tick_and_earlier_if_something_is_due(setup: Setup) -> None:
    assert setup.loop.next_ms == 0
    setup.fire_after(0)
    assert setup.loop.next_ms == TICK_MS
    replicas = setup.peering.replicas
    partition = PartitionId(TopicId("a" * 32), 0)
    replicas._participants[partition] = None  # type: ignore[assignment]
    replicas.schedule(partition, 10_500)
    assert setup.loop.next_ms == TICK_MS
    replicas.schedule(partition, 10_047)
    assert setup.loop.next_ms == 60, "with all that is due in the same 20 ms"
    del replicas._participants[partition]
    replicas._deadlines.drop(partition)
    setup.fire_after(60)
    assert setup.loop.next_ms == 140
    assert setup.runs == [10_000, 10_060]


def test_who_was_held_up_listens_before_it_takes_anybody_for_silent(setup: Setup) -> None:
    setup.fire_after(0)
    setup.fire_after(2_000)
    assert setup.runs == [10_000], "what waits in the sockets comes first"
    assert setup.loop.next_ms == 0
    setup.fire_after(0)
    assert setup.runs == [10_000, 12_000]


async def test_after_the_stop_nothing_is_planned(setup: Setup) -> None:
    await setup.peering.stop()
    assert all(timer.is_over for timer in setup.loop.timers)
    setup.peering.replicas.on_earlier()
    assert all(timer.is_over for timer in setup.loop.timers)


def parcel(sender: Node = PEER, receiver: Node = ME, cluster_id: str = "c1") -> Parcel:
    heartbeat = Heartbeat(incarnation=1, version=1, is_whole=True, needs_whole=False, claims={})
    return Parcel(sender=sender, receiver=receiver, heartbeat=heartbeat, cluster_id=cluster_id)


async def test_only_what_is_meant_for_this_node_by_one_it_knows_is_taken(setup: Setup) -> None:
    peering = setup.peering
    with pytest.raises(InvalidRequest, match="2/16 is not known"):
        peering.receive(parcel())
    peering.know({ME: "127.0.0.1:1", PEER: "127.0.0.1:1"})
    with pytest.raises(InvalidRequest, match="of cluster c2"):
        peering.receive(parcel(cluster_id="c2"))
    with pytest.raises(InvalidRequest, match="2/17 is not known"):
        peering.receive(parcel(sender=Node(2, 23)))
    peering.receive(parcel(receiver=Node(1, 0)))
    assert peering.replicas.heard_ms(PEER) == -1
    peering.receive(parcel(cluster_id=""))
    assert peering.replicas.heard_ms(PEER) == 10_000, "also before this broker reaches it"
    peering.know({})
    assert peering.replicas.heard_ms(PEER) == -1
    await peering.stop()
