"""What is remembered of clients that an operator has parked."""

from __future__ import annotations

import pytest

from penstock.broker.delivery.push import operator_parks
from penstock.broker.delivery.push.operator_parks import OperatorParks


def test_a_group_of_a_client_is_parked_until_it_is_resumed() -> None:
    """R-DEL-8."""
    parks = OperatorParks()
    for group in ("billing", "audit", ""):
        parks.add("one", group)
    parks.add("other", "billing")
    assert parks.remove("one", "billing")
    assert not parks.remove("one", "billing")
    assert [parks.has("one", group) for group in ("billing", "audit", "")] == [False, True, True]
    assert parks.remove("one", "")
    assert not parks.has("one", "audit")
    assert parks.has("other", "billing")


def test_who_has_no_name_is_not_remembered() -> None:
    parks = OperatorParks()
    parks.add("", "billing")
    assert not parks.has("", "billing")


def test_of_too_many_the_oldest_is_forgotten_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(operator_parks, "OPERATOR_PARKS_MAX", 2)
    parks = OperatorParks()
    for name in ("a", "b", "a", "c"):
        parks.add(name, "g")
    assert [parks.has(name, "g") for name in "abc"] == [True, False, True]
    assert "'b'" in caplog.text
