"""What an inspection must be told."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidRequest
from penstock.spark.inspection import InspectOptions


def test_a_broker_or_a_folder() -> None:
    assert InspectOptions(topics=("orders",), path="data").bootstrap is None
    with pytest.raises(InvalidRequest, match="give one of both"):
        InspectOptions(topics=("orders",))
    with pytest.raises(InvalidRequest, match="give one of both"):
        InspectOptions(topics=("orders",), path="data", bootstrap="127.0.0.1:9092")


def test_at_least_one_topic() -> None:
    with pytest.raises(InvalidRequest, match="no topic to inspect"):
        InspectOptions(topics=(), path="data")
