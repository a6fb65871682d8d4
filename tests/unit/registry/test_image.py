"""What the image remembers of deleted topics is bounded; which folder a broker has."""

from __future__ import annotations

from dataclasses import replace

from penstock.model.ids import BrokerId
from penstock.model.limits import DELETED_PARTITIONS_MAX, DELETED_TOPICS_MAX
from penstock.model.removal import DeletedPartition, DeletedTopic
from penstock.registry.image import BrokerImage, latest_deletions


def deleted(name: str, partitions: int = 1) -> DeletedTopic:
    return DeletedTopic(
        name=name,
        topic_id="0" * 32,
        at_ms=1,
        partitions=tuple(DeletedPartition(number, 0, 5) for number in range(partitions)),
    )


def names(deletions: tuple[DeletedTopic, ...]) -> list[str]:
    return [topic.name for topic in deletions]


def test_the_latest_are_remembered() -> None:
    many = tuple(deleted(str(number)) for number in range(DELETED_TOPICS_MAX + 3))
    assert latest_deletions(many) == many[3:]
    assert latest_deletions(many[3:]) == many[3:]
    assert latest_deletions(()) == ()


def test_many_partitions_push_out_the_older_ones() -> None:
    some = (deleted("small"), deleted("large", DELETED_PARTITIONS_MAX - 1), deleted("last"))
    assert names(latest_deletions(some)) == ["large", "last"]
    assert names(latest_deletions(some[:2])) == ["small", "large"]


def test_the_last_one_is_remembered_however_large() -> None:
    huge = deleted("huge", DELETED_PARTITIONS_MAX + 1)
    assert names(latest_deletions((deleted("small"), huge))) == ["huge"]


def test_a_folder_is_known_by_its_id_and_its_place() -> None:
    """R-REP-4, R-REP-5: a copy is elsewhere; where nobody says, it may be the same."""
    broker = BrokerImage(id=BrokerId(1), address="a:1", directory=5, place=7)
    assert broker.has_folder(5, 7)
    assert not broker.has_folder(5, 8)
    assert not broker.has_folder(6, 7)
    assert broker.has_folder(5, 0)
    assert replace(broker, place=0).has_folder(5, 8)
