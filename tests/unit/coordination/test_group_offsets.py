"""Group offsets: the state is what its records say (R-DEL-10)."""

from __future__ import annotations

import dataclasses

import pytest

from penstock.coordination.group_offsets import (
    CommittedOffset,
    GroupOffsets,
    check_commit,
    encode_commit,
)
from penstock.model.errors import InvalidRequest


def committed(offset: int, topic: str = "orders", partition: int = 0) -> CommittedOffset:
    return CommittedOffset(
        topic=topic, topic_id="id", partition=partition, offset=offset, metadata="note"
    )


def test_the_last_commit_counts() -> None:
    """R-DEL-10: offsets are kept per group and partition."""
    state = GroupOffsets()
    for group, offset in (
        ("billing", committed(5)),
        ("billing", committed(9)),
        ("billing", committed(3, partition=1)),
        ("audit", committed(1)),
    ):
        state.apply(*encode_commit(group, offset))
    assert state.of_group("billing") == [committed(9), committed(3, partition=1)]
    assert state.of_group("audit") == [committed(1)]
    assert state.of_group("nobody") == []
    assert state.groups() == ["audit", "billing"]


def test_topics_can_be_chosen() -> None:
    state = GroupOffsets()
    state.apply(*encode_commit("g", committed(1, "a")))
    state.apply(*encode_commit("g", committed(2, "b")))
    assert state.of_group("g", frozenset({"b"})) == [committed(2, "b")]


def test_a_checkpoint_leads_to_the_same_state() -> None:
    state = GroupOffsets()
    for number in range(50):
        state.apply(*encode_commit(f"g{number % 3}", committed(number, partition=number % 5)))
    again = GroupOffsets()
    for key, value in state.checkpoint():
        again.apply(key, value)
    assert again.count == state.count == 15
    assert all(again.of_group(group) == state.of_group(group) for group in state.groups())


def test_offsets_of_topics_that_are_gone_are_forgotten() -> None:
    state = GroupOffsets()
    state.apply(*encode_commit("g", committed(1, "a")))
    state.apply(*encode_commit("g", committed(2, "b")))
    state.apply(*encode_commit("h", committed(3, "a")))
    state.forget(lambda offset: offset.topic == "a")
    assert state.groups() == ["g"]
    assert state.of_group("g") == [committed(2, "b")]
    assert state.count == 1


@pytest.mark.parametrize(
    ("group", "offset"),
    [
        ("", committed(0)),
        ("g" * 256, committed(0)),
        ("g", committed(-1)),
        ("g", dataclasses.replace(committed(0), metadata="x" * 5000)),
    ],
)
def test_nonsense_is_refused(group: str, offset: CommittedOffset) -> None:
    with pytest.raises(InvalidRequest):
        check_commit(group, offset)
