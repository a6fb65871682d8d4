"""Facts and changes: what is applied, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.model.errors import (
    ChangedMeanwhile,
    InvalidConfig,
    InvalidPlacement,
    PenstockError,
    TopicExists,
    UnknownTopic,
)
from penstock.model.ids import BrokerId, TopicId
from penstock.model.limits import FIRST_TERM_MAX, UNHEARD_ELECTIONS_MAX
from penstock.model.removal import DeletedTopic
from penstock.raft.membership import Node
from penstock.registry.facts import (
    AddPartitions,
    Adopt,
    BeginDeletion,
    Change,
    ChangeSettings,
    ChangeTargets,
    CreateTopic,
    DrainBroker,
    ExpireBroker,
    Facts,
    FinishDeletion,
    Move,
    RegisterBroker,
    ReserveProducerIds,
    Seen,
    apply,
    topics_of,
)
from penstock.registry.image import TopicImage
from tests.kit.registry.facts import broker, ids

ORDERS = TopicId("0" * 31 + "1")
ANOTHER = TopicId("0" * 31 + "2")


def of_three() -> Facts:
    facts = Facts(cluster_id="cluster")
    for number in (1, 2, 3):
        facts = apply(facts, RegisterBroker(broker=broker(number)))
    return facts


def creation(*placement: tuple[BrokerId, ...], id: TopicId = ORDERS) -> CreateTopic:  # noqa: A002
    return CreateTopic(name="orders", id=id, settings={"retention_ms": "5"}, placement=placement)


def with_orders() -> Facts:
    return apply(of_three(), creation(ids(1, 2), ids(2, 3)))


def seen(topic: TopicImage) -> dict[str, Seen]:
    return {topic.name: Seen(topic.id, topic.version)}


def test_a_topic_begins_with_the_brokers_of_its_placement() -> None:
    """R-REP-2: how many replicas there are is chosen at creation."""
    topic = with_orders().topic("orders")
    assert [partition.replicas for partition in topic.partitions] == [ids(1, 2), ids(2, 3)]
    assert topic.partitions[1].voters == (Node(2, 0xD2), Node(3, 0xD3))
    assert topic.settings == {"retention_ms": "5"}


@pytest.mark.parametrize("replicas", [(), (1, 1), (1, 4)])
def test_a_placement_names_live_brokers_each_once(replicas: tuple[int, ...]) -> None:
    with pytest.raises(InvalidPlacement, match="'orders'"):
        apply(of_three(), creation(ids(*replicas)))


def test_a_dead_broker_gets_nothing_and_keeps_what_it_has() -> None:
    """R-REP-7: a dead broker's replicas are moved one by one, the others' with it around."""
    facts = apply(with_orders(), ExpireBroker(node=Node(2, 0xD2)))
    assert list(facts.image().brokers) == [1, 3]
    assert facts.topic("orders").partitions[0].replicas == ids(1, 2)
    with pytest.raises(InvalidPlacement, match="no live broker 2"):
        apply(facts, AddPartitions(name="orders", first=2, placement=(ids(2),)))
    change = ChangeTargets(moves=(Move("orders", 0, ids(3, 2)),), seen=seen(facts.topic("orders")))
    assert apply(facts, change).topic("orders").partitions[0].replicas == ids(3, 2)


def test_a_broker_that_came_back_with_another_folder_does_not_expire_as_the_old_one() -> None:
    expired = apply(of_three(), ExpireBroker(node=Node(2, 0xD2)))
    back = apply(expired, RegisterBroker(broker=broker(2, directory=7)))
    assert BrokerId(2) in apply(back, ExpireBroker(node=Node(2, 0xD2))).image().brokers


def test_two_brokers_do_not_share_an_id() -> None:
    facts = of_three()
    with pytest.raises(InvalidConfig, match="broker id 2 is in use"):
        apply(facts, RegisterBroker(broker=broker(2, directory=7)))
    again = replace(broker(2), address="127.0.0.1:1")
    assert apply(facts, RegisterBroker(broker=again)).brokers[again.id] == again


def test_a_copy_of_a_folder_waits_until_the_broker_it_was_copied_from_is_dead() -> None:
    facts = of_three()
    copy = broker(2, place=7)
    with pytest.raises(InvalidConfig, match=r"broker 2 is in use by the broker at .*:9002, and"):
        apply(facts, RegisterBroker(broker=copy))
    expired = apply(facts, ExpireBroker(node=copy.node))
    assert apply(expired, RegisterBroker(broker=copy)).brokers[copy.id] == copy


def test_a_topic_is_made_once() -> None:
    with pytest.raises(TopicExists):
        apply(with_orders(), creation(ids(1), id=ANOTHER))


def test_partitions_are_added_to_as_many_as_were_seen() -> None:
    """R-REP-7, and of two who add at once the second has to look again."""
    change = AddPartitions(name="orders", first=2, placement=(ids(3, 1),))
    facts = apply(with_orders(), change)
    assert facts.topic("orders").partitions[2].voters == (Node(3, 0xD3), Node(1, 0xD1))
    with pytest.raises(ChangedMeanwhile, match="3 partitions by now"):
        apply(facts, change)


def test_a_plan_holds_for_what_it_was_made_by() -> None:
    facts = with_orders()
    plan = ChangeTargets(moves=(Move("orders", 0, ids(3, 1)),), seen=seen(facts.topic("orders")))
    after = apply(facts, plan)
    moved = after.topic("orders").partitions[0]
    assert moved.replicas == ids(3, 1)
    assert moved.voters == facts.topic("orders").partitions[0].voters, "it began where it began"
    with pytest.raises(ChangedMeanwhile):
        apply(after, plan)


def test_a_plan_for_a_topic_of_before_is_not_one_for_its_successor() -> None:
    facts = with_orders()
    old = seen(facts.topic("orders"))
    gone = apply(
        apply(facts, BeginDeletion(name="orders", deletion=None)),
        FinishDeletion(name="orders", id=ORDERS),
    )
    again = apply(gone, creation(ids(1, 2), ids(2, 3), id=ANOTHER))
    with pytest.raises(ChangedMeanwhile):
        apply(again, ChangeTargets(moves=(Move("orders", 0, ids(3)),), seen=old))


@pytest.mark.parametrize("move", [Move("orders", 2, ids(1)), Move("orders", 0, ids(9))])
def test_all_of_a_plan_or_nothing(move: Move) -> None:
    facts = with_orders()
    moves = (Move("orders", 1, ids(1)), move)
    with pytest.raises(InvalidPlacement):
        apply(facts, ChangeTargets(moves=moves, seen=seen(facts.topic("orders"))))


def test_settings_decided_by_what_was_there_before_somebody_else_changed_it() -> None:
    facts = with_orders()
    first = ChangeSettings(name="orders", settings={"retention_ms": "6"}, version=0)
    after = apply(facts, first)
    with pytest.raises(ChangedMeanwhile):
        apply(after, replace(first, settings={}))
    assert apply(after, replace(first, version=None)).topic("orders").version == 2


def test_a_deletion_hides_the_topic_and_then_forgets_it() -> None:
    deletion = DeletedTopic(name="orders", topic_id=ORDERS, at_ms=5, partitions=())
    deleting = apply(with_orders(), BeginDeletion(name="orders", deletion=deletion))
    with pytest.raises(UnknownTopic):
        deleting.topic("orders")
    gone = apply(deleting, FinishDeletion(name="orders", id=ORDERS))
    assert not gone.topics
    assert gone.deleted_topics == (deletion,)


def test_the_end_of_a_deletion_that_comes_late_spares_the_successor() -> None:
    finish = FinishDeletion(name="orders", id=ORDERS)
    for facts in (with_orders(), apply(of_three(), creation(ids(1), id=ANOTHER)), of_three()):
        assert apply(facts, finish).topics == facts.topics


def test_the_successor_is_not_deleted_for_the_topic_of_before() -> None:
    deletion = DeletedTopic(name="orders", topic_id=ANOTHER, at_ms=5, partitions=())
    with pytest.raises(ChangedMeanwhile):
        apply(with_orders(), BeginDeletion(name="orders", deletion=deletion))


def remade(facts: Facts, last_term: int | None, *placement: tuple[BrokerId, ...]) -> Facts:
    """The topic is deleted, and another made under its name."""
    deletion = BeginDeletion(name="orders", deletion=None, last_term=last_term)
    facts = apply(facts, deletion)
    facts = apply(facts, FinishDeletion(name="orders", id=facts.topics["orders"].id))
    return apply(facts, creation(*placement))


def test_a_namesake_begins_above_all_terms_that_came_before() -> None:
    facts = remade(with_orders(), 7, ids(1, 2))
    assert facts.topic("orders").first_term == 7 + UNHEARD_ELECTIONS_MAX
    again = remade(facts, 0, ids(1, 2))
    first_term = 7 + 2 * UNHEARD_ELECTIONS_MAX
    assert again.topic("orders").first_term == first_term, "though nobody was heard to lead it"
    added = apply(again, AddPartitions(name="orders", first=1, placement=(ids(2, 3),)))
    assert added.topic("orders").first_term == first_term
    another = apply(added, replace(creation(ids(1)), name="letters"))
    assert another.topic("letters").first_term == first_term, "its namesakes may be forgotten"


def test_where_nobody_can_have_been_elected_terms_do_not_rise() -> None:
    """A lone copy leads in the term that it begins with, and so on a broker on its own all do: what
    they begin with need not be written down there."""
    facts = remade(apply(of_three(), creation(ids(1), ids(2))), 0, ids(3))
    assert facts.topic("orders").first_term == 0
    assert remade(facts, 2, ids(3)).topic("orders").first_term == 2 + UNHEARD_ELECTIONS_MAX
    moves = (Move("orders", 0, ids(1)),)
    moved = apply(facts, ChangeTargets(moves=moves, seen=seen(facts.topic("orders"))))
    assert remade(moved, 0, ids(3)).topic("orders").first_term == UNHEARD_ELECTIONS_MAX
    moves = (Move("orders", 0, ids(3)),)
    back = apply(moved, ChangeTargets(moves=moves, seen=seen(moved.topic("orders"))))
    assert remade(back, 0, ids(3)).topic("orders").first_term == UNHEARD_ELECTIONS_MAX


def test_a_deletion_of_before_terms_were_told_means_what_it_meant() -> None:
    """Or meta servers that look at it again would differ from one that keeps what came of it."""
    assert remade(with_orders(), None, ids(1, 2)).topic("orders").first_term == 0


def test_terms_that_topics_begin_with_leave_room_for_elections() -> None:
    facts = remade(with_orders(), 2**31 - 1, ids(1, 2))
    assert facts.topic("orders").first_term == FIRST_TERM_MAX
    assert remade(facts, FIRST_TERM_MAX, ids(1)).topic("orders").first_term == FIRST_TERM_MAX


def test_a_broker_is_drained_alive_or_dead_if_it_is_known_at_all() -> None:
    facts = apply(with_orders(), ExpireBroker(node=Node(2, 0xD2)))
    drained = apply(facts, DrainBroker(broker=BrokerId(2), is_drained=True))
    assert drained.image().drained == {2}
    assert apply(drained, DrainBroker(broker=BrokerId(2), is_drained=False)).drained == set()
    with pytest.raises(InvalidPlacement, match="no broker 9"):
        apply(facts, DrainBroker(broker=BrokerId(9), is_drained=True))


def test_producer_ids_go_up() -> None:
    facts = apply(apply(of_three(), ReserveProducerIds(count=10)), ReserveProducerIds(count=5))
    assert facts.next_producer_id == 15


def test_a_broker_on_its_own_becomes_the_first_of_a_cluster() -> None:
    """R-REP-6: nothing of it is lost, and doing it twice does nothing."""
    alone = replace(with_orders(), next_producer_id=7)
    adopted = apply(of_three(), Adopt(facts=alone))
    assert adopted.topic("orders") == replace(alone.topic("orders"), version=0)
    assert adopted.next_producer_id == 7
    again = apply(adopted, Adopt(facts=alone))
    assert replace(again, version=0) == replace(adopted, version=0)
    other = apply(of_three(), creation(ids(1), id=ANOTHER))
    with pytest.raises(TopicExists, match="not the one of this broker"):
        apply(other, Adopt(facts=alone))


def test_every_change_counts_and_a_refusal_does_not() -> None:
    facts = with_orders()
    assert facts.version == 4
    with pytest.raises(PenstockError):
        apply(facts, creation(ids(1)))
    assert facts.version == 4


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (creation(ids(1)), ("orders",)),
        (FinishDeletion(name="orders", id=ORDERS), ("orders",)),
        (AddPartitions(name="orders", first=0, placement=()), ("orders",)),
        (
            ChangeTargets(moves=(Move("b", 0, ()), Move("a", 0, ()), Move("b", 1, ())), seen={}),
            ("b", "a"),
        ),
        (Adopt(facts=with_orders()), ("orders",)),
        (ReserveProducerIds(count=1), ()),
    ],
)
def test_what_a_change_is_about(change: Change, names: tuple[str, ...]) -> None:
    assert topics_of(change) == names
