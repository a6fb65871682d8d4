"""Steps of the pipelines here that are functions: DataFrames in, one DataFrame out."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import col


def without_test_orders(orders: DataFrame) -> DataFrame:
    """Orders that a person made: no negative amounts, and not the tester's."""
    return orders.where((col("amount") > 0) & (col("customer") != "tester"))
