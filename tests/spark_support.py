"""What the tests with a real Spark share: one session for all of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import cache

import pytest
from pyspark.sql import SparkSession

from penstock.spark.sessions import session

# A test ends before the better compiler and collector of a JVM have paid for themselves. Spark's
# launcher gives these to every driver that a test starts, whether here or by a command.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


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
