"""The sink's options: defaults, names without case, one sentence for what is wrong."""

from __future__ import annotations

import logging

import pytest

from penstock.model.errors import InvalidConfig, InvalidTopic
from penstock.records import Codec
from penstock.spark.sink.options import BATCH_BYTES_DEFAULT, SinkOptions, parse_options


def parsed(**options: str) -> SinkOptions:
    return parse_options({"bootstrap": "127.0.0.1:9092", **options}, is_streaming=False)


def test_defaults() -> None:
    """R-SPK-2: exactly once unless something else is asked for."""
    assert parsed() == SinkOptions(
        bootstrap="127.0.0.1:9092",
        topic=None,
        codec=Codec.NONE,
        is_exactly_once=True,
        batch_bytes=BATCH_BYTES_DEFAULT,
        transaction_name=None,
        transaction_version=0,
    )


def test_names_have_no_case_and_kafka_has_its_own() -> None:
    options = {
        "KAFKA.bootstrap.SERVERS": "a:1",
        "Topic": "orders",
        "COMPRESSION": "Zstd",
        "Delivery": "At-Least-Once",
        "batchbytes": "2048",
        "checkpointLocation": "somewhere",
        "queryName": "copy",
    }
    assert parse_options(options, is_streaming=True) == SinkOptions(
        bootstrap="a:1",
        topic="orders",
        codec=Codec.ZSTD,
        is_exactly_once=False,
        batch_bytes=2048,
        transaction_name=None,
        transaction_version=0,
    )


def test_a_write_can_have_a_name_and_a_version() -> None:
    options = parsed(txnAppId="totals", txnVersion="7")
    assert (options.transaction_name, options.transaction_version) == ("totals", 7)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topik": "orders"}, "did you mean topic?"),
        ({"txnAppId": " ", "txnVersion": "1"}, "txnAppId is empty"),
        ({"compression": "brotli"}, "it can be none, gzip, snappy, lz4, zstd"),
        ({"delivery": "maybe"}, "it can be exactly-once or at-least-once"),
        ({"batchBytes": "12"}, "a whole number from 1024 on"),
        ({"batchBytes": "99999999999"}, "at most"),
        ({"txnAppId": "totals"}, "set together"),
        ({"txnVersion": "1"}, "set together"),
        ({"txnAppId": "totals", "txnVersion": "-1"}, "a whole number from 0 on"),
        (
            {"txnAppId": "totals", "txnVersion": "1", "delivery": "at-least-once"},
            "leave one of them out",
        ),
        ({"path": "/data"}, "not to a path"),
        ({"kafka.bootstrap.servers": "b:2"}, "give one of them"),
        ({"kafka.security.protocol": "SSL"}, "secured connection"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        parsed(**options)
    assert sentence in str(raised.value)


def test_a_topic_must_be_one() -> None:
    with pytest.raises(InvalidTopic):
        parsed(topic="no such/topic")


def test_a_broker_must_be_named() -> None:
    with pytest.raises(InvalidConfig, match="set the option `bootstrap`"):
        parse_options({"topic": "orders"}, is_streaming=False)


def test_a_stream_numbers_its_writes_itself() -> None:
    options = {"bootstrap": "a:1", "txnAppId": "totals", "txnVersion": "1"}
    with pytest.raises(InvalidConfig, match="are for batch writes"):
        parse_options(options, is_streaming=True)


def test_settings_of_a_kafka_producer_are_named_as_without_effect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            parsed(**{"kafka.linger.ms": "5", "kafka.acks": "all"})
    [record] = caplog.records
    assert "kafka.acks, kafka.linger.ms" in record.getMessage()
