"""The checkers of shared delivery notice what they are named after, and nothing else."""

from __future__ import annotations

import pytest

from tests.kit.histories.leases import (
    ACKNOWLEDGE,
    EXTEND,
    FAIL,
    RELEASE,
    DeliveryHistory,
    Leased,
    Lost,
    Settled,
)


def history(*events: Leased | Settled | Lost, published: int = 1, **how: object) -> DeliveryHistory:
    made = DeliveryHistory(attempts_max=3, **how)  # type: ignore[arg-type]
    made.published = dict.fromkeys(range(published), b"key")
    for event in events:
        match event:
            case Leased():
                made.leases.append(event)
            case Settled():
                made.settlements.append(event)
            case Lost():
                made.losses.append(event)
    return made


def leased(member: str, came_s: float, until_s: float, offset: int = 0, attempt: int = 1) -> Leased:
    return Leased(offset, member, came_s - 0.1, came_s, until_s, attempt)


def test_an_orderly_history() -> None:
    """Failed, released, ran out, extended, lost with its connection, acknowledged."""
    made = history(
        leased("a", 1, 3),
        Settled(0, "a", FAIL, 1.5, 1.6),
        leased("b", 1.6, 3.6, attempt=2),
        Settled(0, "b", RELEASE, 2.0, 2.2),
        leased("a", 2.1, 4.1, attempt=2),
        Settled(0, "a", EXTEND, 3.0, 3.1, until_s=5.0),
        leased("b", 5.0, 7.0, attempt=3),
        Lost("b", 6.0),
        leased("a", 6.0, 8.0, attempt=3),
        Settled(0, "a", ACKNOWLEDGE, 7.0, 7.1),
    )
    assert made.violations() == []


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            history(
                leased("a", 1, 3), Settled(0, "a", ACKNOWLEDGE, 1.5, 1.6), leased("b", 1.8, 3.8)
            ),
            "0 was acknowledged at 1.600 and leased to b",
        ),
        (history(leased("a", 1, 3), leased("b", 2.9, 5)), "with a until 3.000"),
        (history(leased("a", 1, 3), leased("a", 2.9, 5)), "with a until 3.000"),
        (
            history(leased("a", 1, 9), leased("b", 9, 10), leased("c", 8, 8.5)),
            "came to c at 8.000, and was with a",
        ),
        (
            history(
                leased("a", 1, 3), Settled(0, "a", EXTEND, 2, 2.1, until_s=4), leased("b", 3.5, 5)
            ),
            "with a until 4.000",
        ),
        (history(leased("a", 1, 3), Lost("b", 2), leased("b", 2.5, 5)), "with a until 3.000"),
        (history(leased("a", 1, 3), published=2), "1 was published and never leased"),
        (history(leased("a", 1, 3, attempt=4)), "for attempt 4"),
        (
            history(
                *(leased("a", 3.0 * n, 3 * n + 1) for n in range(3)),
                *(Settled(0, "a", FAIL, 3 * n + 0.5, 3 * n + 0.6) for n in range(3)),
            ),
            "failed 3 times",
        ),
        (
            history(leased("a", 1, 3), Settled(0, "a", ACKNOWLEDGE, 1.5, 1.6), dead={0}),
            "0 was acknowledged, and is among the dead letters",
        ),
        (
            history(leased("a", 1, 3), leased("b", 2, 3, offset=1), published=2, is_ordered=True),
            "1 came at 2.000, before 0 of its key was done",
        ),
        (
            history(
                leased("a", 1, 3),
                leased("b", 2, 3, offset=1),
                Settled(0, "a", ACKNOWLEDGE, 2.5, 2.6),
                published=2,
                is_ordered=True,
            ),
            "1 came at 2.000, before 0 of its key was done",
        ),
    ],
)
def test_a_violation_is_noticed(made: DeliveryHistory, said: str) -> None:
    (found,) = made.violations()
    assert said in found


def test_a_late_answer_is_no_violation() -> None:
    """A lease that was made before the acknowledgement, and came after it: to who was stopped."""
    stopped = Leased(0, "b", leased_s=0.5, came_s=5.0, until_s=2.5)
    made = history(stopped, leased("a", 2.5, 4.5), Settled(0, "a", ACKNOWLEDGE, 3, 3.1))
    assert made.violations() == []


def test_an_acknowledgement_that_was_not_answered_promises_nothing() -> None:
    made = history(leased("a", 1, 3), Settled(0, "a", ACKNOWLEDGE, 2), leased("b", 3, 5))
    assert made.violations() == []


def test_a_key_goes_on_when_the_earlier_one_is_done_or_dead() -> None:
    made = history(
        leased("a", 1, 3),
        Settled(0, "a", ACKNOWLEDGE, 1.5, 1.6),
        leased("b", 1.7, 3, offset=1),
        leased("b", 3.1, 5, offset=2),
        published=3,
        is_ordered=True,
        dead={1},
    )
    assert made.violations() == []
