"""The columns of the source."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig
from penstock.spark.source.options import parse_options
from penstock.spark.source.schema import make_parser, source_schema


def columns(**options: str) -> str:
    given = {"bootstrap": "h:1", "subscribe": "orders", **options}
    return source_schema(parse_options(given)).simpleString()


MESSAGE = "topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"


def test_the_columns_of_sparks_kafka_source() -> None:
    """R-SPK-1: a job moves by changing one word."""
    assert columns() == f"struct<key:binary,value:binary,{MESSAGE}>"
    headers = "headers:array<struct<key:string,value:binary>>"
    assert columns(includeHeaders="true") == f"struct<key:binary,value:binary,{MESSAGE},{headers}>"


def test_what_batches_say_of_themselves() -> None:
    assert columns(includeBatch="true").endswith(
        ",batchOffset:bigint,batchRecords:int,batchBytes:int,codec:string,producerId:bigint,"
        "producerEpoch:int,sequence:int,appendTime:timestamp,createTime:timestamp>"
    )


def test_typed_values_take_the_place_of_the_value() -> None:
    typed = columns(valueFormat="json", valueSchema="id BIGINT, name STRING")
    assert typed == f"struct<key:binary,id:bigint,name:string,{MESSAGE},_corrupt:binary>"


def test_a_value_cannot_have_a_column_that_every_message_has() -> None:
    for options in (
        {"valueSchema": "offset BIGINT"},
        {"valueSchema": "codec STRING", "includeBatch": "true"},
        {"valueSchema": "CODEC STRING", "includeBatch": "true"},
    ):
        with pytest.raises(InvalidConfig):
            columns(valueFormat="json", **options)


def test_without_a_format_there_is_no_parser() -> None:
    assert make_parser(parse_options({"bootstrap": "h:1", "subscribe": "orders"})) is None
