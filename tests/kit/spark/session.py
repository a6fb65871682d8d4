"""What the tests with a real Spark share: one session for all of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import cache

import pytest
from pyspark.sql import SparkSession

from penstock.spark.sessions.session import session


@cache
def shared_session() -> SparkSession:
    """Started by the first test that asks; Spark ends with the process."""
    warehouse = tempfile.mkdtemp(prefix="penstock-spark-")
    return session(
        "local[2]",
        "penstock-tests",
        {
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": os.path.join(warehouse, "warehouse"),
            "spark.log.level": "ERROR",
        },
    )


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    started = shared_session()
    yield started
    for query in started.streams.active:
        query.stop()
