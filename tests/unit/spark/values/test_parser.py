"""The options that make a parser, and what is said if they make none."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest

from penstock.model.errors import InvalidConfig
from penstock.spark.values import ValueParser, value_parser

AVRO = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]})


@pytest.mark.parametrize(
    ("form", "schema", "options", "value"),
    [
        ("json", "a INT", {}, b'{"a":1}'),
        ("JSON", "a INT", {"other": "x"}, b'{"a":1}'),
        ("csv", "a INT, b INT", {}, b"1,2"),
        ("csv", "a INT, b INT", {"csvDelimiter": ";"}, b"1;2"),
        ("csv", "a INT, b INT", {"csvdelimiter": "\t"}, b"1\t2"),
        ("avro", AVRO, {}, b"\2"),
        ("avro", AVRO, {"AvroFraming": "Confluent"}, b"\0\0\0\0\1\2"),
    ],
)
def test_each_format(form: str, schema: str, options: dict[str, str], value: bytes) -> None:
    parser = value_parser(form, schema, options)
    copy: ValueParser = pickle.loads(pickle.dumps(parser))
    for each in (parser, copy):
        columns, corrupt = each.parse(pa.array([value, None], pa.binary()))
        assert columns[0].to_pylist() == [1, None]
        assert corrupt.to_pylist() == [None, None]
        assert each.schema.names[0] == "a"


@pytest.mark.parametrize(
    ("form", "schema", "options", "sentence"),
    [
        ("xml", "a INT", {}, "valueFormat is 'xml': it can be json, csv or avro."),
        ("json", "a", {}, "valueSchema cannot be read"),
        ("json", "a INT, Timestamp STRING", {}, "'Timestamp'.*from_json"),
        ("csv", "_corrupt STRING", {}, "'_corrupt'"),
        ("csv", "a INT", {"csvDelimiter": "::"}, "csvDelimiter is '::'"),
        ("csv", "a INT", {"csvDelimiter": '"'}, "csvDelimiter"),
        ("csv", "a INT", {"csvDelimiter": ""}, "csvDelimiter"),
        ("csv", "a ARRAY<INT>", {}, "CSV cannot hold"),
        ("avro", "a INT", {}, "no Avro schema"),
        ("avro", AVRO, {"avroFraming": "none"}, "avroFraming is 'none'"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    form: str, schema: str, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(InvalidConfig, match=sentence) as raised:
        value_parser(form, schema, options)
    assert "\n" not in str(raised.value)


def test_a_column_may_be_named_value() -> None:
    """The source has none of that name when values are taken apart."""
    assert value_parser("json", "value STRING", {}).schema.names == ["value"]
