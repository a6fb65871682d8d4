"""What of a JVM's words is passed on, and what is made of them when it does not start."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from penstock.spark.sessions import gateway
from penstock.spark.sessions.gateway import _Pump, end_sentence, quiet_log_option


def pumped(text: str, *, has_started: bool) -> _Pump:
    reading, writing = os.pipe()
    pump = _Pump(reading)
    if has_started:
        pump.has_started.set()
    pump.start()
    os.write(writing, text.encode(errors="surrogateescape"))
    os.close(writing)
    pump.join()
    return pump


def test_greetings_are_dropped_and_the_rest_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", shown := io.StringIO())
    pumped("WARNING: Using incubator modules: x\nfrom a worker\n\udcff\n", has_started=True)
    assert shown.getvalue() == "from a worker\n\ufffd\n"


def test_the_jvm_can_write_even_if_nobody_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    pumped("lost\n" * 100_000, has_started=True)


def test_a_start_that_failed_is_the_first_exception_or_the_last_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", shown := io.StringIO())
    java = 'WARNING: package x\nException in thread "main" org.x.SparkException: No yarn.\n\tat y\n'
    assert pumped(java, has_started=False).reason() == "No yarn."
    assert pumped("first\nlast\n\n", has_started=False).reason() == "last"
    assert pumped("", has_started=False).reason() == "it said nothing."
    assert shown.getvalue() == ""


def test_a_jvm_that_ended_is_told_of_by_how_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the error, its process says whether it has."""
    monkeypatch.setattr(gateway, "_END_SECONDS_MAX", 0.01)
    errors = (ConnectionRefusedError(), Py4JNetworkError(), Py4JError())
    with subprocess.Popen(["sleep", "60"]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        assert [end_sentence(error) for error in errors] == [None] * 3, "it lives"
        process.kill()
        process.wait()
        for error in errors:
            told = end_sentence(error)
            assert told is not None
            assert told.startswith("Spark's JVM was ended by SIGKILL, as happens when memory")
        assert end_sentence(ValueError()) is None
    with subprocess.Popen(["sh", "-c", "exit 52"]) as process:
        process.wait()
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        assert (end_sentence(Py4JError()) or "").startswith("Spark's JVM ended with code 52, as")
    monkeypatch.setattr(SparkContext, "_gateway", None)
    assert end_sentence(ConnectionRefusedError()) is None


def test_the_log_settings_are_a_file_that_java_finds() -> None:
    option = quiet_log_option()
    path = option.partition("file:")[2]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert "rootLogger.level = error" in text
    assert "%ex{1}" in text
    assert quiet_log_option() == option
