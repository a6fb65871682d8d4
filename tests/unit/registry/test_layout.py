"""The working copy of a plan: counts follow the targets, and the next broker is well chosen."""

from __future__ import annotations

from penstock.model.ids import TopicPartition
from penstock.registry.facts import Move
from penstock.registry.layout import Layout
from tests.kit.registry.facts import broker, cluster, ids

HERE = TopicPartition("orders", 0)


def test_counts_follow_the_targets() -> None:
    layout = Layout(cluster([broker(1), broker(2)], {"orders": [ids(1, 2), ids(1)]}))
    assert (layout.replicas[ids(1)[0]], layout.leaders[ids(1)[0]]) == (2, 2)
    layout.set(HERE, ids(2))
    assert [layout.replicas[each] for each in ids(1, 2)] == [1, 1]
    assert [layout.topic_leaders("orders", each) for each in ids(1, 2)] == [1, 1]
    assert layout.moves() == [Move("orders", 0, ids(2))]


def test_dead_drained_and_closed_brokers_are_never_chosen() -> None:
    image = cluster([broker(1), broker(2), broker(3)], {"orders": [ids(9, 1)]}, drained=[2])
    layout = Layout(image, closed=ids(3))
    assert layout.open == ids(1)
    assert layout.choose(HERE, ids(1)) is None


def test_another_host_comes_before_less_load() -> None:
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "b")]
    layout = Layout(cluster(brokers, {"events": [ids(3), ids(3), ids(3)]}))
    assert layout.choose(HERE, ids(1)) == 3
    assert layout.choose(HERE, ids(1, 3)) == 2, "there is no third host"


def test_brokers_of_unnamed_hosts_are_hosts_of_their_own() -> None:
    layout = Layout(cluster([broker(1), broker(2)]))
    assert layout.host(ids(1)[0]) != layout.host(ids(2)[0])
    assert layout.on_host(ids(1, 2), ids(1)[0]) == 1
