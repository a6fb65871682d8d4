"""Sightings add up."""

from __future__ import annotations

from penstock.spark.inspection.evidence.evidence import Sighting
from penstock.spark.inspection.finding import EXAMPLES_MAX, Example


def places(*offsets: int, partition: int = 0, text: str = "") -> tuple[Example, ...]:
    return tuple(Example(partition=partition, offset=offset, text=text) for offset in offsets)


def test_counts_add_up_and_the_first_places_are_kept() -> None:
    both = Sighting(20, places(*range(0, 20, 2))) + Sighting(5, places(*range(1, 10, 2)))
    assert both.count == 25
    assert [place.offset for place in both.examples] == list(range(EXAMPLES_MAX))


def test_one_place_is_told_once_in_the_first_words() -> None:
    both = Sighting(1, places(7, text="by key")) + Sighting(1, places(7, text="by producer"))
    assert [place.text for place in both.examples] == ["by key"]
