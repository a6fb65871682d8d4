"""Options as people write them."""

from __future__ import annotations

import logging

import pytest

from penstock.model.errors import InvalidConfig
from penstock.spark.option_values import (
    bootstrap_of,
    check_names,
    first_of,
    number,
    switch,
    text,
    warn_of_ignored,
)

KNOWN = ("subscribe", "startingOffsets", "kafka.bootstrap.servers")


def test_names_have_no_case() -> None:
    assert check_names({"STARTINGoffsets": "earliest"}, KNOWN) == []
    assert text({"STARTINGoffsets": "earliest"}, "startingOffsets") == "earliest"


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(InvalidConfig, match=r"startingOfsets is no option.*mean startingOffsets\?"):
        check_names({"startingOfsets": "earliest"}, KNOWN)
    with pytest.raises(InvalidConfig, match=r"see docs/spark\.md"):
        check_names({"zzz": "1"}, KNOWN)


def test_options_of_the_kafka_source_without_a_meaning_are_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {
        "kafkaconsumer.polltimeoutms": "1",
        "fetchOffset.numRetries": "3",
        "kafka.max.poll.records": "5",
        "kafka.bootstrap.servers": "h:1",
        "kafka.security.protocol": "plaintext",
    }
    ignored = check_names(given, KNOWN)
    assert ignored == [
        "fetchOffset.numRetries",
        "kafka.max.poll.records",
        "kafka.security.protocol",
        "kafkaConsumer.pollTimeoutMs",
    ]
    with caplog.at_level(logging.WARNING):
        warn_of_ignored(ignored)
        warn_of_ignored([])
    assert len(caplog.records) == 1
    assert "kafka.max.poll.records" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.security.protocol", "SASL_SSL"),
        ("kafka.sasl.mechanism", "PLAIN"),
        ("kafka.ssl.truststore.location", "/x"),
    ],
)
def test_security_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match="secured connection"):
        check_names({name: value}, KNOWN)


def test_two_names_of_one_option() -> None:
    assert bootstrap_of({"kafka.bootstrap.servers": "h:1"}) == "h:1"
    assert bootstrap_of({"bootstrap": "h:1", "kafka.bootstrap.servers": "h:1"}) == "h:1"
    assert bootstrap_of({}) is None
    with pytest.raises(InvalidConfig, match="a is '1' and b is '2': give one of them"):
        first_of({"a": "1", "b": "2"}, "a", "b")


def test_switches_and_numbers() -> None:
    assert switch({"x": "TRUE"}, "x", default=False)
    assert switch({}, "x", default=True)
    with pytest.raises(InvalidConfig, match="x is 'yes': it can be true or false"):
        switch({"x": "yes"}, "x", default=False)
    assert number({"x": "7"}, "x") == 7
    assert number({}, "x") is None
    for bad in ("0", "-1", "many", "1.5"):
        with pytest.raises(InvalidConfig, match="whole number from 1 on"):
            number({"x": bad}, "x")
