"""Losses in words."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model.ids import TopicPartition
from penstock.model.removal import DeletedPartition, DeletedTopic, Removal
from penstock.spark.planning.loss import Loss, explain, summary

ZERO = TopicPartition("orders", 0)
# 2026-11-16 02:00:00 UTC
AT_MS = 1_794_794_400_000


class Known:
    """What a broker remembers."""

    def __init__(
        self, removals: Sequence[Removal] = (), deletions: Sequence[DeletedTopic] = ()
    ) -> None:
        self._removals = removals
        self._deletions = deletions

    def removals(self, partition: TopicPartition) -> Sequence[Removal]:
        return self._removals

    def deletions(self, topic: str) -> Sequence[DeletedTopic]:
        return self._deletions


def removed(first: int, end: int) -> Loss:
    return Loss(kind="removed", partition=ZERO, first=first, end=end, resumed_at=end)


def cut(first: int, end: int) -> Loss:
    return Loss(kind="cut", partition=ZERO, first=first, end=end)


def retention(first: int, end: int, at_ms: int = AT_MS) -> Removal:
    return Removal(
        first_offset=first,
        end_offset=end,
        cause="retention_time",
        at_ms=at_ms,
        detail="retention_ms is 60000",
    )


def deletion(topic_id: str, end: int) -> DeletedTopic:
    return DeletedTopic(
        name="orders", topic_id=topic_id, at_ms=AT_MS, partitions=(DeletedPartition(0, 0, end),)
    )


def test_retention() -> None:
    explained = explain(removed(0, 100), Known([retention(0, 100)]))
    assert explained.count == 100
    assert explained.sentence == (
        "Offsets 0 to 99 of orders[0] (100 messages) are gone: removed by retention "
        "(retention_ms is 60000) at 2026-11-16 02:00:00 UTC."
    )


def test_only_what_was_missed_is_told() -> None:
    known = Known([retention(0, 60, AT_MS - 1_000), retention(60, 160)])
    explained = explain(removed(40, 100), known)
    assert explained.count == 60
    assert "40 to 59 removed by retention" in explained.sentence
    assert "60 to 99 removed by retention" in explained.sentence


def test_one_message() -> None:
    assert explain(removed(7, 8), Known()).sentence.startswith("Offset 7 of orders[0] (1 message)")


def test_what_is_not_recorded_is_said_to_be_unknown() -> None:
    nothing = explain(removed(0, 100), Known()).sentence
    assert nothing.endswith("are gone: why and when is not recorded.")
    older = explain(removed(0, 100), Known([retention(50, 100)])).sentence
    assert "0 to 49 before 2026-11-16 02:00:00 UTC, why is not known, 50 to 99 removed" in older


def test_many_causes_are_counted() -> None:
    removals = [retention(first, first + 10, AT_MS + 1_000 * first) for first in range(0, 100, 10)]
    sentence = explain(removed(0, 100), Known(removals)).sentence
    assert "7 earlier parts, 70 to 79 removed" in sentence


def test_what_went_at_once_is_told_at_once() -> None:
    removals = [retention(first, first + 10) for first in range(0, 100, 10)]
    assert explain(removed(0, 100), Known(removals)) == explain(
        removed(0, 100), Known([retention(0, 100)])
    )


def test_causes() -> None:
    for loss, cause, words in (
        (removed(0, 9), "retention_size", "removed by retention"),
        (removed(0, 9), "deleted", "deleted on request"),
        (cut(0, 9), "truncated", "cut off by recovery"),
    ):
        removal = Removal(first_offset=0, end_offset=9, cause=cause, at_ms=AT_MS, detail="")  # type: ignore[arg-type]
        assert f"are gone: {words} at 2026" in explain(loss, Known([removal])).sentence


def test_what_was_cut_off_earlier_is_not_what_was_removed() -> None:
    """R-SPK-3: the offsets went to other messages, which left from the log's start; and the other
    way round."""
    truncated = Removal(first_offset=0, end_offset=9, cause="truncated", at_ms=AT_MS, detail="")
    known = Known([truncated, retention(0, 9, AT_MS + 5_000)])
    told = explain(removed(0, 9), known).sentence
    assert told.endswith("removed by retention (retention_ms is 60000) at 2026-11-16 02:00:05 UTC.")
    told = explain(cut(0, 9), known).sentence
    assert told.endswith("are gone: cut off by recovery at 2026-11-16 02:00:00 UTC.")


def test_a_deleted_topic() -> None:
    loss = Loss(kind="deleted", partition=ZERO, first=40, end=None, topic_id="old")
    explained = explain(loss, Known((), [deletion("older", 7), deletion("old", 100)]))
    assert explained.count == 60
    assert explained.sentence == (
        "Topic orders was deleted at 2026-11-16 02:00:00 UTC: Offsets 40 to 99 of orders[0] "
        "(60 messages) were not read and are gone."
    )


def test_a_topic_that_was_read_to_its_end_has_lost_nothing() -> None:
    loss = Loss(kind="made anew", partition=ZERO, first=100, end=None, topic_id="old")
    explained = explain(loss, Known((), [deletion("old", 100)]))
    assert explained.count == 0
    assert "made anew under its name" in explained.sentence
    assert "all of orders[0] had been read" in explained.sentence


def test_a_deletion_that_is_not_remembered() -> None:
    loss = Loss(kind="deleted", partition=ZERO, first=40, end=None, topic_id="old")
    for known in (Known(), Known((), [deletion("another", 100)])):
        explained = explain(loss, known)
        assert explained.count is None
        assert "when is not recorded" in explained.sentence
    offline = DeletedTopic(name="orders", topic_id="old", at_ms=AT_MS, partitions=())
    assert explain(loss, Known((), [offline])).count is None


def test_a_deleted_topic_of_which_a_part_was_to_be_read() -> None:
    loss = Loss(kind="deleted", partition=ZERO, first=40, end=50, topic_id="old")
    for known, when in (
        (Known((), [deletion("old", 100)]), "at 2026-11-16 02:00:00 UTC"),
        (Known(), "(when is not recorded)"),
    ):
        explained = explain(loss, known)
        assert explained.count == 10
        assert explained.sentence == (
            f"Topic orders was deleted {when}: Offsets 40 to 49 of orders[0] (10 messages) were "
            f"not read and are gone."
        )


def test_several_losses_are_one_text() -> None:
    explained = [explain(removed(0, number), Known()) for number in range(2, 8)]
    assert summary(explained).endswith("So it is with 3 other partitions.")
    assert "other partitions" not in summary(explained[:3])
