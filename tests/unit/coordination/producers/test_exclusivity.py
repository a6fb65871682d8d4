"""What a leader believes of a claim, and for how long."""

from __future__ import annotations

import pytest

from penstock.coordination.producers.exclusivity import ClaimView, Verdict
from penstock.model.limits import CLAIM_VALID_MS


def test_nothing_is_known_at_first() -> None:
    view = ClaimView()
    assert view.judge(1, 0.0, 0.0) is Verdict.UNKNOWN
    assert view.judge(0, 0.0, 0.0) is Verdict.UNKNOWN
    assert view.is_due(0.0)


def test_the_holder_may_write_until_the_answer_runs_out() -> None:
    """R-CORE-6: counted from the question, not from the answer."""
    view = ClaimView()
    view.learn(2, "a", 500, asked_s=10.0)
    assert view.judge(2, 10.1, 10.499) is Verdict.MAY_WRITE
    assert view.judge(2, 10.1, 10.5) is Verdict.UNKNOWN
    assert not view.is_due(10.2)
    assert view.is_due(10.25)


def test_a_broker_of_another_version_is_not_believed_for_longer() -> None:
    view = ClaimView()
    view.learn(2, "a", 60_000, asked_s=10.0)
    assert view.judge(2, 10.0, 10.0 + CLAIM_VALID_MS / 1000) is Verdict.UNKNOWN


def test_a_lower_claim_is_gone_and_a_higher_one_may_be_newer_than_the_answer() -> None:
    view = ClaimView()
    view.learn(2, "a", 500, asked_s=10.0)
    assert view.judge(1, 10.1, 10.1) is Verdict.REFUSED
    assert view.judge(0, 10.1, 10.1) is Verdict.REFUSED
    assert view.judge(3, 10.1, 10.1) is Verdict.UNKNOWN
    # What came before the question, the answer is about.
    assert view.judge(3, 9.9, 10.1) is Verdict.REFUSED


@pytest.mark.parametrize(
    ("holder", "claim", "said"),
    [
        (0, 0, "nobody has claimed it. Claim it with"),
        (4, 0, "'a' has claimed it. Claim it with"),
        (4, 3, "was taken over by 'a': claim 3 is no more"),
        (0, 3, "was given up: claim 3 is no more"),
    ],
)
def test_a_refusal_says_who_and_what_to_do(holder: int, claim: int, said: str) -> None:
    view = ClaimView()
    view.learn(holder, "a" if holder else "", 500, asked_s=0.0)
    assert said in str(view.refusal("orders", claim))
