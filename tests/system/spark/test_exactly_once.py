"""Drivers, workers and brokers killed at every point of a streaming query: each row exactly once.

What runs is `copy_main`: a topic is read into another topic (through a shuffle and with bytes that
differ in every attempt) and into Parquet. Whatever dies, the output topic holds each row at most
once at any moment, and both hold each row exactly once when the input is drained.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from tests.kit.processes.brokers import BrokerProcess
from tests.system.spark.drivers import Driver

ROWS = 4000
IN_PARTITIONS = 3
OUT_PARTITIONS = 2
# The order in which a micro-batch passes them, and how often each is passed before the kill.
POINTS = {"planned": 0, "reading": 1, "staged": 1, "committed": 0, "source-committed": 0}
# A driver on this master tries a task up to four times, as one on a cluster does.
LOCAL = "local[2,4]"
LOCAL_CLUSTER = "local-cluster[2,1,1024]"


def publish_input(address: str) -> None:
    """Each row twice, far apart."""
    with penstock.connect_blocking(address) as mq:
        mq.admin.create_topic("in", IN_PARTITIONS)
        mq.admin.create_topic("out", OUT_PARTITIONS)
        with mq.producer() as producer:
            for _ in range(2):
                for row in range(ROWS):
                    producer.send("in", b"row %d" % row, b"key %d" % (row % 97))


def output_rows(address: str) -> Counter[str]:
    """How often each row is in the output topic."""
    found: Counter[str] = Counter()
    with penstock.connect_blocking(address) as mq:
        ends = [partition.high_watermark for partition in mq.admin.describe_topic("out").partitions]
        for partition, end in enumerate(ends):
            for columns in mq.read_range("out", partition, 0, end):
                offsets, data = columns.values.offsets, columns.values.data
                for first, last in pairwise(offsets):
                    # "row 7 <uuid>"
                    found[bytes(data[first:last]).decode().rpartition(" ")[0]] += 1
    return found


def assert_at_most_once(address: str) -> int:
    """Gives how many rows there are."""
    found = output_rows(address)
    repeated = [row for row, times in found.items() if times > 1]
    assert not repeated, f"{len(repeated)} rows are there twice, as {repeated[:3]}"
    return len(found)


def assert_exactly_once(address: str, folder: Path, spark: SparkSession) -> None:
    """R-SPK-2: the topic holds each row once, the Parquet folder each message of the input."""
    assert assert_at_most_once(address) == ROWS
    assert set(output_rows(address)) == {f"row {row}" for row in range(ROWS)}
    archive = spark.read.parquet(str(folder / "archive"))
    [places] = archive.selectExpr(
        "count(*) AS total",
        "count(DISTINCT partition, offset) AS places",
        "count(DISTINCT value) AS values",
    ).collect()
    assert tuple(places) == (2 * ROWS, 2 * ROWS, ROWS)


def test_a_driver_killed_before_what_it_staged_is_committed(
    tmp_path: Path, spark: SparkSession
) -> None:
    """R-SPK-2: the next one reads the same rows, and each is there once."""
    folder = tmp_path / "query"
    with BrokerProcess(tmp_path / "data") as broker:
        publish_input(broker.address)
        with Driver(folder, broker.address, master=LOCAL, stops={"staged": 1}) as driver:
            driver.wait_for("staged")
            driver.kill()
        assert assert_at_most_once(broker.address) < ROWS, "it was killed too late"
        with Driver(folder, broker.address, master=LOCAL) as driver:
            driver.wait()
        assert_exactly_once(broker.address, folder, spark)


@pytest.mark.soak
def test_a_driver_killed_at_any_point_and_whatever_else_dies(
    tmp_path: Path, spark: SparkSession
) -> None:
    """R-SPK-2, R-SPK-5: SIGKILL of the driver between plan, read, sink commit and source commit,
    and at random; of Python workers in their tasks; of the broker between staging and commit."""
    chance = random.Random(4)
    folder = tmp_path / "query"
    with BrokerProcess(tmp_path / "data") as broker:
        publish_input(broker.address)
        for point, passes in POINTS.items():
            with Driver(folder, broker.address, master=LOCAL, stops={point: passes}) as driver:
                driver.wait_for(point)
                driver.kill()
            assert_at_most_once(broker.address)
        with Driver(folder, broker.address, master=LOCAL, stops={"planned": 0}) as driver:
            driver.wait_for("planned")
            driver.release("planned")
            time.sleep(chance.uniform(0.2, 3.0))
            driver.kill()
        assert assert_at_most_once(broker.address) < ROWS, "there was nothing left to disturb"
        with Driver(
            folder,
            broker.address,
            master=LOCAL,
            stops={"staged": 1},
            deaths={"reading": 1, "task-staged": 1},
        ) as driver:
            driver.wait_for("staged")
            broker.kill()
            broker.start()
            driver.release("staged")
            driver.wait()
            assert driver.has_reached("reading")
            assert driver.has_reached("task-staged")
        assert_exactly_once(broker.address, folder, spark)


@pytest.mark.soak
def test_on_a_cluster_of_two_workers(tmp_path: Path, spark: SparkSession) -> None:
    """R-SPK-2, R-SPK-5: the same where tasks run in processes on a master's workers."""
    folder = tmp_path / "query"
    with BrokerProcess(tmp_path / "data") as broker:
        publish_input(broker.address)
        for point in ("staged", "committed"):
            with Driver(folder, broker.address, master=LOCAL_CLUSTER, stops={point: 0}) as driver:
                driver.wait_for(point)
                driver.kill()
            assert_at_most_once(broker.address)
        deaths = {"reading": 1, "task-staged": 1}
        with Driver(
            folder, broker.address, master=LOCAL_CLUSTER, deaths=deaths, rows_per_trigger=1500
        ) as driver:
            driver.wait()
            assert all(map(driver.has_reached, deaths))
        assert_exactly_once(broker.address, folder, spark)
