"""Push streams: credit, window, deadlines, timeout queue, park and resume (R-DEL-6, R-DEL-8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.coordination.delivery.push import (
    Answered,
    CreditGiven,
    Load,
    Loaded,
    Push,
    Refused,
    Send,
    TimePassed,
)
from tests.golden.delivery.push_script import SETTINGS, PushScript
from tests.kit.runs.golden_files import run_golden

GOLDEN = Path(__file__).parents[3] / "golden" / "delivery"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("push_*.txt")), ids=lambda path: path.stem)
def test_scenarios(path: Path) -> None:
    """R-DEL-6, R-DEL-8: as the files tell it."""
    run_golden(path, PushScript().run)


def test_a_load_that_nobody_asked_for_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="nothing was asked for"):
        Push(SETTINGS).handle(Loaded(messages=1, size_bytes=1), 0)


def test_a_timer_that_comes_early_does_nothing() -> None:
    push = Push(SETTINGS)
    push.handle(CreditGiven(messages=10, size_bytes=10), 0)
    assert push.handle(TimePassed(), 10**9) == []
    push.handle(Loaded(messages=1, size_bytes=1), 5)
    assert push.deadline_ms == 1005
    assert push.handle(TimePassed(), 1004) == []
    assert push.timeouts == 0


def test_one_load_is_asked_for_at_a_time() -> None:
    push = Push(SETTINGS)
    first = push.handle(CreditGiven(messages=1, size_bytes=1), 0)
    assert first == [Load(messages_max=1, bytes_max=1)]
    assert push.handle(CreditGiven(messages=1, size_bytes=1), 0) == []
    assert push.handle(Loaded(messages=1, size_bytes=1), 0) == [
        Send(1),
        Load(messages_max=1, bytes_max=1),
    ]


def test_an_answer_of_any_kind_to_nothing_is_counted_and_ignored() -> None:
    push = Push(SETTINGS)
    for number in (0, 1, 2**64 - 1):
        assert push.handle(Answered(number), 0) == []
        assert push.handle(Refused(number), 0) == []
    assert push.strays == 6
