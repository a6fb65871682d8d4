"""What of a JVM's words is passed on, and what is made of them when it does not start."""

from __future__ import annotations

import io
import os
import sys

import pytest

from penstock.spark.gateway import _Pump, quiet_log_option


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


def test_the_log_settings_are_a_file_that_java_finds() -> None:
    option = quiet_log_option()
    path = option.partition("file:")[2]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert "rootLogger.level = error" in text
    assert "%ex{1}" in text
    assert quiet_log_option() == option
