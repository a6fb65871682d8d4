"""Filters as they come over the wire, kept while they are in use."""

from __future__ import annotations

import pytest

from penstock.broker.delivery.filters import Filters, filter_from
from penstock.coordination.filter.filters import Filter
from penstock.model.errors import InvalidFilter
from penstock.model.limits import FILTERS_KEPT_MAX
from penstock.protocol import penstock_pb2 as pb


def test_a_filter_is_parsed_once() -> None:
    """R-DEL-12: parsed once."""
    filters = Filters()
    first = filters.compiled(pb.Filter(expression="a = 1"))
    assert filters.compiled(pb.Filter(expression="a = 1")) is first
    assert filters.compiled(pb.Filter(expression="a = 2")) is not first


def test_those_asked_for_last_are_kept() -> None:
    filters = Filters()
    used = filters.compiled(pb.Filter(tags=["used"]))
    for number in range(3 * FILTERS_KEPT_MAX):
        filters.compiled(pb.Filter(tags=[f"tag {number}"]))
        assert filters.compiled(pb.Filter(tags=["used"])) is used
    assert len(filters) == FILTERS_KEPT_MAX


def test_one_that_is_wrong_is_refused_each_time_and_not_kept() -> None:
    filters = Filters()
    for _ in range(2):
        with pytest.raises(InvalidFilter, match="at character 5"):
            filters.compiled(pb.Filter(expression="a = "))
    assert len(filters) == 0


def test_an_empty_key_is_not_the_same_as_none() -> None:
    assert filter_from(pb.Filter()) == Filter()
    assert filter_from(pb.Filter(key=b"", key_prefix=b"")) == Filter(key=b"", key_prefix=b"")
    everything = pb.Filter(tags=["a", "b"], key=b"k", key_prefix=b"p", expression="x = 1")
    assert filter_from(everything) == Filter(
        tags=("a", "b"), key=b"k", key_prefix=b"p", expression="x = 1"
    )
