"""Tests here share one Spark session (tests/spark_support.py); what starts Java starts it fast."""

from __future__ import annotations

import pytest

from tests.spark_support import spark

__all__ = ["spark"]


@pytest.fixture(scope="session", autouse=True)
def _spark_starts_fast(fast_java: None) -> None:
    pass
