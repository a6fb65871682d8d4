"""What tests of failures rely on: each checker of a history finds what it is there to find."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kit.histories.messages import (
    History,
    Outcome,
    Sent,
    check_no_complaints,
    check_no_duplicates,
    check_no_phantoms,
    check_nothing_lost,
    check_nothing_skipped,
    check_offsets_functional,
    check_offsets_true,
    check_order_kept,
    check_reading_order,
)


def sound() -> History:
    """Four messages of two producers in two partitions, all acknowledged and read by two."""
    history = History(2)
    for number in range(2):
        for producer, offset in (("a", 0), ("b", 1)):
            sent = history.send(producer, number)
            history.acknowledge(sent, offset)
            for reader in ("all", "other"):
                history.read(reader, number, offset, sent.value)
    return history


def test_a_sound_history_passes() -> None:
    history = sound()
    history.check(["all"])
    assert history.report().startswith("4 acknowledged, 0 failed, 0 unknown; ")
    assert history.acknowledged(0) == 2


def lose(history: History) -> None:
    history.reads["all"].pop()


def invent(history: History) -> None:
    history.read("all", 0, 2, Sent("a", 0, 7).value)


def write_what_failed(history: History) -> None:
    sent = history.send("a", 0)
    history.fail(sent, "it was not written", is_written=False)
    history.read("all", 0, 2, sent.value)


def misplace(history: History) -> None:
    sent = history.send("a", 0)
    history.read("all", 1, 2, sent.value)


def double(history: History) -> None:
    history.read("all", 0, 2, Sent("a", 0, 0).value)


def swap(history: History) -> None:
    first, second = history.send("a", 0), history.send("a", 0)
    history.read("all", 0, 2, second.value)
    history.read("all", 0, 3, first.value)


def go_back(history: History) -> None:
    history.read("other", 1, 0, Sent("a", 1, 0).value)


def change(history: History) -> None:
    history.reads["other"].pop()
    history.read("other", 1, 1, history.send("a", 1).value)


def lose_what_has_no_offset(history: History) -> None:
    history.acknowledge(history.send("a", 0), None)


def move(history: History) -> None:
    sent = history.send("a", 0)
    history.acknowledge(sent, 5)
    history.read("all", 0, 2, sent.value)


def skip(history: History) -> None:
    del history.reads["other"][0]


@pytest.mark.parametrize(
    ("spoil", "check", "words"),
    [
        (lose, lambda it: check_nothing_lost(it, "all"), "1 acknowledged messages"),
        (lose_what_has_no_offset, lambda it: check_nothing_lost(it, "all"), "1 acknowledged"),
        (invent, lambda it: check_no_phantoms(it, "all"), "should not have read"),
        (write_what_failed, lambda it: check_no_phantoms(it, "all"), "should not have read"),
        (misplace, lambda it: check_no_phantoms(it, "all"), "should not have read"),
        (double, lambda it: check_no_duplicates(it, "all"), "at more than one offset"),
        (swap, lambda it: check_order_kept(it, "all"), "out of order"),
        (go_back, lambda it: check_reading_order(it, "other"), "given again, or late"),
        (change, check_offsets_functional, "offsets with two values"),
        (move, lambda it: check_offsets_true(it, "all"), "elsewhere than acknowledged"),
        (skip, lambda it: check_nothing_skipped(it, "other", "all"), "was not given"),
        (lambda it: it.complain("x", "no"), check_no_complaints, "1 complaints: x: no"),
    ],
)
def test_what_is_wrong_is_found(
    spoil: Callable[[History], None], check: Callable[[History], None], words: str
) -> None:
    history = sound()
    check(history)
    spoil(history)
    with pytest.raises(AssertionError, match=words):
        check(history)
    with pytest.raises(AssertionError):
        history.check(["all"])


def test_a_history_in_which_nothing_happened_is_no_proof() -> None:
    with pytest.raises(AssertionError, match="nothing was tested"):
        History(1).check([])


def test_what_nobody_was_told_of_is_unknown() -> None:
    history = sound()
    history.send("a", 0)
    history.fail(history.send("a", 0), "it timed out")
    assert history.count(Outcome.UNKNOWN) == 2
    history.check(["all"])


def test_an_acknowledgement_need_not_say_where_but_the_message_must_be_there() -> None:
    """librdkafka takes a batch for written when one behind it is (IMPLICITACK in its log), whatever
    it was told of it."""
    history = sound()
    sent = history.send("a", 0)
    history.acknowledge(sent, None)
    for reader in ("all", "other"):
        history.read(reader, 0, 2, sent.value)
    history.check(["all"])
    assert history.acknowledged(0) == 3


def test_gaps_are_measured_from_where_they_are_asked_for() -> None:
    history = sound()
    began_s = min(send.began_s for send in history.sends.values())
    for at_s, sent in enumerate(list(history.sends)):
        history.sends[sent].began_s = began_s + at_s
    assert history.longest_gap_s(1, since_s=began_s + 2.5) == pytest.approx(0.5, abs=0.1)
