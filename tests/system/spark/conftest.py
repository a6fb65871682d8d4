"""Tests here share one Spark session; see tests/spark_support.py."""

from __future__ import annotations

from tests.spark_support import spark

__all__ = ["spark"]
