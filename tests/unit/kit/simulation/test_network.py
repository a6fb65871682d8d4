"""The network loses, delays, doubles, damages and cuts, as it is told to."""

from __future__ import annotations

from random import Random

from tests.kit.simulation.network import Deliver, Network
from tests.kit.simulation.timeline import Timeline
from tests.kit.simulation.trace import Trace


class Line:
    """A network, and what arrived."""

    def __init__(self, *, keeps_order: bool = True) -> None:
        self.timeline = Timeline(Random(5), Trace())
        self.network = Network(self.timeline, keeps_order=keeps_order)
        self.arrived: list[bytes] = []

    def say(self, *texts: bytes, sender: int = 1, receiver: int = 2) -> None:
        for text in texts:
            self.network.carry_loosely(
                sender, receiver, self.taking(text), lambda: self.taking(b"damaged")
            )

    def taking(self, text: bytes) -> Deliver:
        return lambda: self.arrived.append(text)

    def wait(self) -> None:
        self.timeline.run_for(10_000)


TEXTS = [b"%d" % number for number in range(50)]


def test_without_faults_everything_arrives_in_order() -> None:
    line = Line()
    line.say(*TEXTS)
    line.wait()
    assert line.arrived == TEXTS


def test_a_cut_is_one_way_and_takes_what_is_on_the_way() -> None:
    line = Line()
    line.say(b"on the way")
    line.network.cut_one_way(1, 2)
    line.say(b"lost")
    line.say(b"back", sender=2, receiver=1)
    line.wait()
    assert line.arrived == [b"back"]
    line.network.mend()
    line.say(b"after")
    line.wait()
    assert line.arrived[1:] == [b"after"]


def test_a_cut_between_two_groups_goes_both_ways_and_not_within() -> None:
    network = Line().network
    network.cut_between([1, 2], [3])
    assert network.is_cut(1, 3)
    assert network.is_cut(3, 2)
    assert not network.is_cut(1, 2)


def test_some_are_lost_doubled_and_overtaken() -> None:
    line = Line()
    line.network.loss = line.network.doubling = line.network.overtaking = 0.3
    line.say(*TEXTS)
    line.wait()
    assert set(line.arrived) < set(TEXTS)
    assert len(line.arrived) > len(set(line.arrived))
    assert line.arrived != sorted(line.arrived, key=int)
    line.network.make_better()
    line.arrived.clear()
    line.say(*TEXTS)
    line.wait()
    assert line.arrived == TEXTS


def test_without_order_anything_is_overtaken() -> None:
    line = Line(keeps_order=False)
    line.say(*TEXTS)
    line.wait()
    assert line.arrived != TEXTS
    assert sorted(line.arrived, key=int) == TEXTS


def test_what_is_damaged_comes_as_something_else() -> None:
    line = Line()
    line.network.damage = 1.0
    line.say(*TEXTS)
    line.network.carry_loosely(1, 2, line.taking(b"cannot be"))
    line.wait()
    assert line.arrived == [b"damaged"] * 50 + [b"cannot be"]


def test_on_a_connection_nothing_is_overtaken_or_doubled() -> None:
    line = Line()
    line.network.doubling = line.network.overtaking = 1.0
    heard: list[int] = []
    for number in range(50):
        line.network.carry(1, 2, lambda number=number: heard.append(number))  # type: ignore[misc]
    line.wait()
    assert heard == [*range(50)]
