"""Our reading of schemas and JSON beside Spark's own: the same types, rows and corrupt ones."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.types import StringType, StructType

from penstock.spark.values.ddl import parse_ddl
from penstock.spark.values.json_values import JsonParser
from penstock.spark.values.schema import nullable, read_schema

DDL = (
    "id BIGINT, name STRING",
    "id: long, n: int",
    "a tinyint, b smallint, c integer, d real, e double, f boolean, g binary, h date",
    "a byte, b short, c long, d float",
    "a timestamp, b timestamp_ltz, c timestamp_ntz",
    "a decimal, b DEC(5), c numeric( 38 , 18 )",
    "a ARRAY<STRUCT<sku: STRING, n: INT>>, b map<string,array<int>>",
    "struct<a: int, b: struct<c int>>",
    "`a b` int, `c``d` int",
    "a int NOT NULL COMMENT 'no, not null', b int comment \"x\"",
    "comment string, struct int, 1st int, array array<int>",
)
SCHEMA = """
    i INT, b TINYINT, l BIGINT, d DOUBLE, m DECIMAL(5,2), s STRING, o BOOLEAN, x BINARY, y DATE,
    t TIMESTAMP, a ARRAY<INT>, r STRUCT<k: STRING>, p MAP<STRING, INT>
"""
FIT = (
    '{"i":1,"b":-128,"l":9223372036854775807,"d":1.5,"m":1.005,"s":"x","o":true,"x":"YWI="}',
    '{"y":"2020-02-29","t":"2020-02-29T12:34:56.123456Z"}',
    '{"t":"2020-02-29T12:34:56+02:00"}',
    '{"t":"2020-02-29 12:34:56"}',
    '{"t":60}',
    '{"m":"12.5","d":7}',
    '{"m":999.99}',
    '{"a":[1,null],"r":{"k":"v","other":1},"p":{"x":1,"y":null}}',
    '{"s":12}',
    '{"s":true}',
    '{"s":{"k":[1,"z"]}}',
    '{"i":null,"other":{"deep":[1]}}',
    "{}",
    ' {"i" : 5 }\n',
    '{"s":"\\u00e9\\ud83d\\ude00"}',
)
UNFIT = (
    "nonsense",
    '{"i":1',
    '{"i":"1"}',
    '{"i":1.0}',
    '{"i":2147483648}',
    '{"d":"1.5"}',
    '{"m":1000}',
    '{"o":1}',
    '{"y":"29.02.2020"}',
    '{"t":"noon"}',
    '{"a":["x"]}',
    '{"a":1}',
    '{"r":[1]}',
    '{"p":[1]}',
)


@pytest.mark.parametrize("text", DDL)
def test_schemas_are_understood_as_spark_does(spark: SparkSession, text: str) -> None:
    theirs = StructType.fromDDL(text)
    assert isinstance(theirs, StructType)
    assert parse_ddl(text) == nullable(theirs)


def test_json_is_understood_as_spark_does(spark: SparkSession) -> None:
    """R-SPK-1: rows as `from_json` gives them, and the same ones corrupt."""
    schema = read_schema(SCHEMA)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    rows = spark.createDataFrame([(text,) for text in (*FIT, *UNFIT)], "value STRING")
    options = {"columnNameOfCorruptRecord": "_corrupt"}
    with_corrupt = StructType([*schema.fields]).add("_corrupt", StringType())
    theirs = rows.select(from_json(col("value"), with_corrupt, options).alias("row"))
    table = theirs.select("row.*").toArrow()
    values = pa.array([text.encode() for text in (*FIT, *UNFIT)], pa.binary())
    ours, corrupt = JsonParser(schema).parse(values)
    their_corrupt = table["_corrupt"].to_pylist()
    for place, text in enumerate((*FIT, *UNFIT)):
        assert (corrupt[place].as_py() is not None) == (place >= len(FIT)), text
        assert (their_corrupt[place] is not None) == (place >= len(FIT)), text
    for name, column in zip(schema.names, ours, strict=True):
        good = column[: len(FIT)]
        assert good.to_pylist() == table[name].combine_chunks()[: len(FIT)].to_pylist(), name
