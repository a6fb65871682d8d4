"""What a program may catch: each name that is told of is there, and is the one that is raised."""

from __future__ import annotations

import re

import penstock
from penstock import errors
from penstock.client.errors import FailedDelivery
from penstock.model.error_codes import BY_CODE

NAMED = {name: what for name, what in vars(errors).items() if isinstance(what, type)}


def test_what_is_told_of_is_what_is_there() -> None:
    """R-OPS-7: the tree that the module draws has each of its names."""
    told = (errors.__doc__ or "").partition("PenstockError  ")[2].partition("Not all")[0]
    words = set(re.findall(r"\b[A-Z]\w+", told))
    assert words | {"PenstockError"} == set(NAMED)


def test_they_are_the_errors_that_are_raised() -> None:
    assert penstock.errors is errors
    assert errors.DeliveryFailed is penstock.DeliveryFailed
    assert errors.DamagedBatch is penstock.DamagedBatch
    of_clients = {errors.DeliveryFailed, errors.DamagedBatch, FailedDelivery}
    assert set(NAMED.values()) - of_clients <= set(BY_CODE.values())
