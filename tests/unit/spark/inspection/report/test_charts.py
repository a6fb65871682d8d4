"""Charts are drawn within their frame, whatever the numbers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.inspection.report.charts import Bar, Column, bars, columns, curve, nice_top


@given(st.floats(1e-6, 1e18))
def test_an_axis_ends_at_or_just_above_its_highest_value(value: float) -> None:
    top = nice_top(value)
    assert value <= top * 1.001
    assert top <= 2 * value


def test_an_axis_of_bytes_ends_at_a_round_number_of_its_unit() -> None:
    assert nice_top(2_900, 1024) == 3 * 1024
    assert nice_top(1_000, 1024) == 1_000
    assert nice_top(5.5 * 1024**2, 1024) == 6 * 1024**2


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=100))
def test_columns_stay_inside(values: list[float]) -> None:
    drawn = columns([Column(value, "") for value in values], [], str, name="test")
    numbers = [float(text) for text in re.findall(r'"([-\d.]+)%"', drawn)]
    assert all(-0.2 <= number <= 100.2 for number in numbers)
    assert drawn.count("<rect") == sum(value > 0 for value in values)


def test_a_column_says_its_number() -> None:
    drawn = columns([Column(5, "5 <messages>")], [(0, "start"), (1, "end")], str, name="test")
    assert "<title>5 &lt;messages&gt;</title>" in drawn
    assert 'class="start">start<' in drawn
    assert 'class="end">end<' in drawn


@pytest.mark.parametrize(("length", "width"), [(0.0, "0.00%"), (0.001, "0.80%"), (3.0, "100.00%")])
def test_a_small_bar_is_seen_and_a_long_one_ends(length: float, width: str) -> None:
    assert f'width="{width}"' in bars([Bar("label", length, "1", "title")])


def test_a_curve_is_drawn_from_corner_to_corner() -> None:
    drawn = curve([(0, 0), (0.5, 0.25), (1, 1)], [], name="Lorenz")
    assert 'd="M 0.00,100.00 50.00,75.00 100.00,0.00"' in drawn
    assert 'aria-label="Lorenz"' in drawn
