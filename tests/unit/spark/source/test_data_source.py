"""The way in, without a session: what Spark would call."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import IntegerType, StructType

import penstock.spark
import pyspark_penstock
from penstock.model.errors import InvalidConfig
from penstock.spark.source.batch_reader import BatchReader, FilteringBatchReader
from penstock.spark.source.data_source import DefaultSource, PenstockDataSource
from penstock.spark.source.stream_reader import StreamReader


def source(**options: str) -> PenstockDataSource:
    given = {"bootstrap": "h:1", "subscribe": "orders", **options}
    return PenstockDataSource(CaseInsensitiveDict(given))


def test_spark_finds_it_by_itself() -> None:
    assert pyspark_penstock.DefaultSource is DefaultSource
    assert DefaultSource.name() == PenstockDataSource.name() == "penstock"
    assert penstock.spark.PenstockDataSource is PenstockDataSource


def test_readers() -> None:
    made = pickle.loads(pickle.dumps(source()))
    schema = made.schema()
    assert isinstance(made.reader(schema), FilteringBatchReader)
    assert isinstance(made.streamReader(schema), StreamReader)
    default = DefaultSource(CaseInsensitiveDict(source().options))
    assert type(default.reader(schema)) is BatchReader
    pickle.dumps(made.streamReader(schema))


def test_the_columns_are_fixed() -> None:
    with pytest.raises(InvalidConfig, match="columns of the data source penstock are fixed"):
        source().reader(StructType().add("a", IntegerType()))


def test_what_is_wrong_is_said_at_load() -> None:
    with pytest.raises(InvalidConfig, match="did you mean startingOffsets"):
        source(startingOfsets="latest").schema()
    with pytest.raises(InvalidConfig, match="latest offset is empty"):
        source(startingOffsets="latest").reader(source().schema())
    with pytest.raises(InvalidConfig, match="endingOffsets is for batch reads"):
        source(endingOffsets="latest").streamReader(source().schema())


def test_options_without_an_effect_are_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    made = source(**{"kafka.max.poll.records": "5"})
    made.reader(made.schema())
    assert len(caplog.records) == 1
