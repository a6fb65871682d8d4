"""Settings of a shared group: bounds, defaults, agreement, and how they are kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordination.group.shared.settings import (
    SharedFilter,
    SharedSettings,
    WantedSettings,
    check_agrees,
    check_wanted,
    first_settings,
    from_json,
    to_json,
)
from penstock.model.errors import InconsistentSubscription, InvalidFilter

FILTERS = st.builds(
    SharedFilter,
    tags=st.lists(st.text(max_size=3), max_size=3).map(tuple),
    key=st.none() | st.binary(max_size=3),
    key_prefix=st.none() | st.binary(max_size=3),
    expression=st.text(max_size=5),
)
WANTED = st.builds(
    WantedSettings,
    ordered_by_key=st.booleans(),
    lease_ms=st.none() | st.integers(1_000, 900_000),
    attempts_max=st.none() | st.integers(1, 100),
    backoff_ms=st.none() | st.integers(0, 3_600_000),
    filter=FILTERS,
    start_latest=st.booleans(),
)


@given(WANTED)
def test_what_the_first_member_says_is_kept_and_agrees(wanted: WantedSettings) -> None:
    check_wanted(wanted)
    settings = first_settings(wanted)
    check_agrees("g", settings, wanted)
    assert from_json(json.loads(json.dumps(to_json(settings)))) == settings
    assert settings.backoff_ms <= settings.backoff_ms_max


def test_defaults() -> None:
    settings = first_settings(None)
    assert settings == SharedSettings() == first_settings(WantedSettings())
    assert (settings.lease_ms, settings.attempts_max) == (30_000, 5)
    assert (settings.backoff_ms, settings.backoff_ms_max) == (1_000, 300_000)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (WantedSettings(lease_ms=2_000), r"lease_ms 30000.*says 2000"),
        (WantedSettings(ordered_by_key=True), r"ordered_by_key false.*says true"),
        (WantedSettings(filter=SharedFilter(key=b"k")), r"filter nothing.*says key b'k'"),
    ],
)
def test_the_difference_is_named_with_both_values(wanted: WantedSettings, said: str) -> None:
    with pytest.raises(InconsistentSubscription, match=said):
        check_agrees("g", SharedSettings(), wanted)


def test_a_long_filter_is_not_repeated_whole() -> None:
    wanted = WantedSettings(filter=SharedFilter(expression="x" * 10_000))
    with pytest.raises(InconsistentSubscription) as caught:
        check_agrees("g", SharedSettings(), wanted)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "large",
    [
        SharedFilter(expression="x" * 16_384),
        SharedFilter(tags=("",) * 16_385),
        SharedFilter(key=bytes(16_384)),
    ],
    ids=["expression", "tags", "key"],
)
def test_a_filter_is_bounded(large: SharedFilter) -> None:
    with pytest.raises(InvalidFilter):
        check_wanted(WantedSettings(filter=large))
