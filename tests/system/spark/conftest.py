"""Tests here share one Spark session (tests.kit.spark.session); what starts Java starts fast."""

from __future__ import annotations

import pytest

from tests.kit.spark.session import spark

__all__ = ["spark"]


@pytest.fixture(scope="session", autouse=True)
def _spark_starts_fast(fast_java: None) -> None:
    pass
