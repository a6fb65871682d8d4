"""How long a disk may refuse before something else is tried."""

from __future__ import annotations

from penstock.replication.disk.patience import Patience


def test_it_is_over_when_nothing_was_taken_for_a_second_and_then_begins_anew() -> None:
    patience = Patience()
    assert [patience.is_over(ms) for ms in (0, 500, 999, 1_000, 1_001, 2_000)] == [
        *(False, False, False),
        *(True, False, True),
    ]


def test_one_success_is_enough() -> None:
    patience = Patience()
    patience.is_over(0)
    patience.on_taken()
    assert not patience.is_over(1_500)
    assert patience.is_over(2_500)
