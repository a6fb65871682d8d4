"""The ways to say where reading begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.client.consuming.starts import Start, check_out_of_range, check_start, find_request
from penstock.model.errors import InvalidConfig


@pytest.mark.parametrize("start", ["first", -1, True, 1.5, None, datetime(2026, 1, 1)])  # noqa: DTZ001
def test_nonsense_is_refused_with_advice(start: Start) -> None:
    with pytest.raises(InvalidConfig, match=r"can be|time zone"):
        check_start(start)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="earliest"):
        check_out_of_range("newest")  # type: ignore[arg-type]


def test_each_start_asks_its_question() -> None:
    """R-DEL-10: from the first, the next, a moment; an offset needs no question."""
    earliest = find_request("orders", 2, "earliest")
    latest = find_request("orders", 2, "latest")
    moment = find_request("orders", 2, datetime(2026, 1, 1, tzinfo=UTC))
    assert earliest is not None
    assert latest is not None
    assert moment is not None
    assert (earliest.topic, earliest.partition, earliest.earliest) == ("orders", 2, True)
    assert latest.latest
    assert moment.timestamp_ms == 1767225600000
    assert find_request("orders", 2, 42) is None


def test_no_millisecond_is_lost_on_the_way() -> None:
    for milliseconds in range(1_767_225_600_000, 1_767_225_610_000):
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
        request = find_request("orders", 0, moment)
        assert request is not None
        assert request.timestamp_ms == milliseconds
