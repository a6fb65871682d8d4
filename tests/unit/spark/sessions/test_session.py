"""What a Spark session is started with, and what is refused before anything is started."""

from __future__ import annotations

import os
import socket

import pytest

import penstock.spark
from penstock.model.errors import InvalidConfig, UnavailableError
from penstock.spark.sessions.session import _reason, _settings, check_master, is_local, session


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[4]", "local[4,2]", "local-cluster[2,1,1024]", "yarn", "k8s://h:1"],
)
def test_masters_that_spark_takes(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master",
    ["", "locl[*]", "local[0]", "local[x]", "spark://host", "spark://", "sc://h:1", "http://h"],
)
def test_what_is_no_master_is_one_sentence(master: str) -> None:
    with pytest.raises(InvalidConfig, match=r"no Spark master: write local\[\*\]"):
        check_master(master)


def test_a_master_that_nobody_is_at_is_told_at_once() -> None:
    with socket.socket() as unused, socket.create_server(("127.0.0.1", 0)) as server:
        unused.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{unused.getsockname()[1]}"
        alive = f"127.0.0.1:{server.getsockname()[1]}"
        check_master(f"spark://{alive}")
        check_master(f"spark://{dead},{alive}")
        with pytest.raises(UnavailableError, match=f"No Spark master answers at spark://{dead}"):
            check_master(f"spark://{dead}")
    with pytest.raises(UnavailableError):
        check_master("spark://127.0.0.1:99999")


def test_what_the_user_sets_stays() -> None:
    settings = _settings("local[2]", "x", {"spark.ui.enabled": "true"}, quiet=False)
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.extraJavaOptions" not in settings
    settings = _settings("local", "x", {"spark.driver.extraJavaOptions": "-Xss1m"}, quiet=True)
    assert settings["spark.driver.extraJavaOptions"].startswith("-Xss1m -Dlog4j2.")
    own = {"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=mine"}
    settings = _settings("local", "x", own, quiet=True)
    assert settings["spark.driver.extraJavaOptions"] == "-Dlog4j2.configurationFile=mine"


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[4]", 4),
        ("local[4, 2]", 4),
        ("local[*]", os.cpu_count()),
        ("local-cluster[2,3,1024]", 6),
    ],
)
def test_a_local_master_shuffles_to_its_cores(master: str, cores: int) -> None:
    name = "spark.sql.shuffle.partitions"
    assert _settings(master, "x", {}, quiet=True)[name] == str(cores)
    assert _settings(master, "x", {name: "7"}, quiet=True)[name] == "7"
    assert name not in _settings("yarn", "x", {}, quiet=True)


def test_on_a_cluster_the_driver_is_known_by_its_own_address() -> None:
    assert not is_local("spark://10.0.0.1:7077")
    assert "spark.driver.host" not in _settings("spark://10.0.0.1:7077", "x", {}, quiet=True)


def test_a_java_error_is_the_line_that_says_what_is_wrong() -> None:
    text = (
        "An error occurred while calling None.\n: org.apache.spark.SparkException: No such.\n\tat x"
    )
    assert _reason(ValueError(text)) == "No such."
    assert _reason(ValueError("first\nlast")) == "last"
    assert _reason(ValueError()) == "ValueError"


def test_the_public_name_is_the_function_however_often_it_is_used() -> None:
    assert penstock.spark.session is penstock.spark.session is session
