"""Where a group begins again, whatever the order of acknowledgements."""

from __future__ import annotations

import random

import pytest

from penstock.client.consuming.progress import Progress
from penstock.model.errors import Busy
from penstock.records import Message, build_batch, decode_messages


def messages(*offsets: int) -> list[Message]:
    """Messages with these offsets, in one batch each."""
    return [
        message
        for offset in offsets
        for message in decode_messages(
            build_batch([(None, b"value")], base_offset=offset), "orders", 0, 0
        )
    ]


def test_in_order_every_acknowledgement_is_news() -> None:
    progress = Progress(5)
    progress.hand_out(5, messages(5, 6, 7), 8)
    assert [progress.acknowledge(offset) for offset in (5, 6, 7)] == [True, True, True]
    assert progress.low == 8


def test_out_of_order_the_lowest_missing_one_counts() -> None:
    """R-DEL-10: a crash between them repeats messages and loses none."""
    progress = Progress(0)
    progress.hand_out(0, messages(0, 1, 2, 3), 4)
    assert not progress.acknowledge(2)
    assert not progress.acknowledge(1)
    assert progress.low == 0
    assert progress.acknowledge(0)
    assert progress.low == 3
    assert not progress.acknowledge(1), "a second time is no news"
    assert progress.acknowledge(3)
    assert progress.low == 4


def test_offsets_without_a_message_need_no_acknowledgement() -> None:
    progress = Progress(0)
    progress.hand_out(0, messages(2, 5), 9)
    assert progress.low == 2
    assert progress.acknowledge(2)
    assert progress.low == 5
    assert progress.acknowledge(5)
    assert progress.low == 9


def test_any_order_ends_at_the_end() -> None:
    for seed in range(20):
        offsets = sorted(random.Random(seed).sample(range(100), 60))
        progress = Progress(0)
        progress.hand_out(0, messages(*offsets), 100)
        shuffled = random.Random(seed).sample(offsets, len(offsets))
        for count, offset in enumerate(shuffled):
            missing = shuffled[count:]
            assert progress.low == min(missing)
            progress.acknowledge(offset)
        assert progress.low == 100


def test_committing_all_that_was_handed_out() -> None:
    progress = Progress(0)
    progress.hand_out(0, messages(0, 1, 2, 3), 4)
    progress.acknowledge(3)
    progress.acknowledge_below(3)
    assert progress.low == 4


def test_going_elsewhere_forgets() -> None:
    progress = Progress(0)
    progress.acknowledge(1)
    progress.restart(10)
    assert (progress.low, progress.is_due) == (10, False)
    assert not progress.acknowledge(1)


def test_what_is_due() -> None:
    """Only what somebody acknowledged, and only if the broker does not have it."""
    progress = Progress(5)
    # Reading has begun there, which is nobody's acknowledgement.
    assert (progress.low, progress.is_due) == (5, False)
    # Somebody has said that this is the place.
    progress.acknowledge_below(5)
    assert (progress.low, progress.is_due) == (5, True)
    progress.committed = 5
    assert (progress.low, progress.is_due) == (5, False)
    progress.acknowledge(5)
    assert (progress.low, progress.is_due) == (6, True)
    # Going back to look is no acknowledgement.
    progress.restart(2)
    assert (progress.low, progress.is_due) == (2, False)
    progress.acknowledge(2)
    assert (progress.low, progress.is_due) == (3, True)
    # The user has put the place elsewhere.
    progress.place_was_set(9)
    assert (progress.low, progress.is_due) == (3, False)
    progress.acknowledge(3)
    assert (progress.low, progress.is_due) == (4, True)


def test_what_is_remembered_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.consuming.progress.ACKNOWLEDGED_AHEAD_MAX", 3)
    progress = Progress(0)
    for offset in (1, 2, 3):
        progress.acknowledge(offset)
    with pytest.raises(Busy, match="offset 0"):
        progress.acknowledge(4)


def test_a_filter_that_lets_nothing_through_takes_no_memory() -> None:
    """R-DEL-12: while a message before all of it is not acknowledged."""
    progress = Progress(0)
    progress.hand_out(0, messages(0), 5)
    for start in range(5, 10_000, 5):
        progress.hand_out(start, [], start + 5)
    assert len(progress._gaps) == 1
    assert progress.low == 0
    assert progress.acknowledge(0)
    assert progress.low == 10_000


def test_skipped_stretches_that_are_told_again_do_no_harm() -> None:
    """The reader stands after its last message while what follows it is known to be skipped."""
    progress = Progress(0)
    progress.hand_out(0, messages(0), 5)
    progress.hand_out(1, messages(7), 9)
    assert progress.acknowledge(0)
    assert progress.low == 7
    assert progress.acknowledge(7)
    assert progress.low == 9
