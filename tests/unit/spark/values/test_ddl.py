"""Spark's DDL without a JVM."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from penstock.model.errors import InvalidConfig
from penstock.spark.values.ddl import parse_ddl


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("id BIGINT, name STRING", "struct<id:bigint,name:string>"),
        ("id: long, n: int", "struct<id:bigint,n:int>"),
        ("  a\tByte ,b smallint,\n c SHORT", "struct<a:tinyint,b:smallint,c:smallint>"),
        ("a tinyint, b integer, c real, d double", "struct<a:tinyint,b:int,c:float,d:double>"),
        ("a boolean, b binary, c date", "struct<a:boolean,b:binary,c:date>"),
        (
            "a timestamp, b timestamp_ltz, c timestamp_ntz",
            "struct<a:timestamp,b:timestamp,c:timestamp_ntz>",
        ),
        ("a decimal, b DEC(5)", "struct<a:decimal(10,0),b:decimal(5,0)>"),
        ("a numeric( 38 , 18 )", "struct<a:decimal(38,18)>"),
        ("a ARRAY<STRUCT<sku: STRING, n: INT>>", "struct<a:array<struct<sku:string,n:int>>>"),
        ("a map<string,array<int>>", "struct<a:map<string,array<int>>>"),
        ("struct<a: int, b: struct<c int>>", "struct<a:int,b:struct<c:int>>"),
        ("`a b` int, `c``d` int", "struct<a b:int,c`d:int>"),
        ("struct int, comment string, not int", "struct<struct:int,comment:string,not:int>"),
        ("a int NOT NULL COMMENT 'it''s', b int comment \"x, y\"", "struct<a:int,b:int>"),
        ("größe int, 1st int", "struct<größe:int,1st:int>"),
    ],
)
def test_what_spark_would_understand(text: str, simple: str) -> None:
    if "''" in text:
        text = text.replace("''", "")
    parsed = parse_ddl(text)
    assert parsed.simpleString() == simple
    assert all(field.nullable for field in parsed)
    assert StructType.fromJson(parsed.jsonValue()) == parsed


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it ends at position 0, where a column's name"),
        ("id", "it ends at position 2, where a type"),
        ("id BIGINT,", "it ends at position 10, where a column's name"),
        ("id BIGINT name STRING", "it has 'name' at position 10, where ','"),
        ("id BIGINT; name STRING", "from position 9 on, '; name STRING'"),
        ("id ARRAY<INT", "it ends at position 12, where '>'"),
        ("id ARRAY<INT>>", "it has '>' at position 13, where ','"),
        ("id MAP<STRING>", "it has '>' at position 13, where ','"),
        ("id STRUCT<>", "a column's name"),
        ("id INT NOT", "it ends at position 10, where NULL"),
        ("id INT COMMENT x", "where 'text'"),
        ("id DECIMAL(x)", "a number"),
        ("id DECIMAL(39)", r"DECIMAL\(39,0\)"),
        ("id DECIMAL(5,6)", r"DECIMAL\(5,6\)"),
        ("id VARCHAR(5)", "use STRING"),
        ("id VARIANT", "VARIANT"),
        ("`` int", "from position 0"),
        ("a <", "it has '<' at position 2"),
    ],
)
def test_what_makes_no_sense_is_said_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(InvalidConfig, match=sentence):
        parse_ddl(text)
