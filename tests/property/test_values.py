"""R-SPK-1: typed columns are the same by the fast way and by the careful one, whatever comes; no
bytes make a parser fail."""

from __future__ import annotations

import io
import json

import fastavro
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.spark.values import value_parser
from penstock.spark.values.blocks import Format, Parsed, parse_blocks, parse_rows
from penstock.spark.values.csv_values import CsvParser
from penstock.spark.values.json_values import JsonParser
from penstock.spark.values.schema import read_schema

JSON_SCHEMA = """
    i INT, l BIGINT, b TINYINT, f FLOAT, d DOUBLE, m DECIMAL(9,3), s STRING, t TIMESTAMP,
    n TIMESTAMP_NTZ, y DATE, o BOOLEAN, x BINARY, a ARRAY<INT>,
    r STRUCT<k: STRING, v: ARRAY<STRUCT<w: DATE, z: FLOAT>>, b: BINARY>
"""
CSV_SCHEMA = "i INT, s STRING, d DOUBLE, f FLOAT, m DECIMAL(9,3), t TIMESTAMP, y DATE, o BOOLEAN"
JSON = JsonParser(read_schema(JSON_SCHEMA))
CSV = CsvParser(read_schema(CSV_SCHEMA))
NAMES = [*JSON.schema.names, "k", "v", "w", "z", "unknown", ""]

digits = st.text("0123456789", min_size=1, max_size=25)
signs = st.sampled_from(["", "-", "+"])
numbers = st.one_of(
    st.sampled_from(["0", "-0", "1", "127", "128", "-128", "2147483648", "9223372036854775808"]),
    st.sampled_from(["1e2", "1E400", "1e-400", "3.4028236e38", "1.7976931348623159e308", "0x1F"]),
    st.sampled_from(
        ["NaN", "Infinity", "-Inf", "nan", "01", "1.", ".5", "-", "1_0", "٣", "5e-324"]
    ),
    st.integers(-(2**64), 2**64).map(str),
    st.integers(-(10**7), 10**7).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.builds("{}{}.{}".format, signs, digits, digits),
    st.builds("{}{}e{}{}".format, signs, digits, signs, st.integers(0, 40)),
)
two = st.integers(0, 70).map("{:02}".format)
dates = st.builds(
    "{:04}-{:02}-{:02}".format, st.integers(0, 9999), st.integers(0, 13), two.map(int)
)
times = st.builds(
    "{}{}{}".format,
    dates,
    st.sampled_from(["T", " ", "t", ""]),
    st.one_of(
        two,
        st.builds("{}:{}".format, two, two),
        st.builds("{}:{}:{}".format, two, two, two),
        st.builds("12:34:{}.{}".format, two, digits),
    ),
)
zones = st.sampled_from(["", "Z", "z", "+00:00", "-0130", "+14", "+24:00", "+00:60", " Z"])
moments = st.builds("{}{}".format, st.one_of(dates, times), zones)
texts = st.one_of(
    numbers,
    moments,
    st.sampled_from(["", "true", "False", "1", "YQ==", "YWI=", "YWI", "Y Q==", "NaN", ", Info"]),
    st.text(max_size=8),
)
escaped = st.one_of(
    texts.map(json.dumps),
    texts.map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from([r'"\ud800"', r'"\udc00x"', r'"\ud83d\ude00"', r'"\u0000"', '"\\x"', '"a\tb"']),
)
scalars = st.one_of(numbers, escaped, st.sampled_from(["null", "true", "false"]))
spaces = st.sampled_from(["", "", "", " ", "\t", "\n", "\r\n"])


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.one_of(st.sampled_from(NAMES).map(json.dumps), st.just(r'"\u0069"'))
    member = st.builds("{}{}:{}{}".format, spaces, names, spaces, values)
    return st.lists(member, max_size=5).map(lambda members: "{" + ",".join(members) + "}")


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=4).map(lambda items: "[" + ",".join(items) + "]")


anything = st.recursive(
    scalars, lambda values: st.one_of(objects(values), arrays(values)), max_leaves=10
)
# Members that mostly fit, so that whole blocks go the fast way.
fitting: dict[str, st.SearchStrategy[object]] = {
    "i": st.integers(-(2**31), 2**31 - 1),
    "l": st.integers(-(2**63), 2**63 - 1),
    "b": st.integers(-128, 127),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "d": st.floats(allow_nan=False, allow_infinity=False),
    "m": st.one_of(st.integers(-999999, 999999), st.just("1.25")),
    "s": st.text(max_size=8).filter(lambda text: text.isprintable()),
    "t": st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    "n": st.datetimes().map(lambda moment: moment.isoformat()),
    "y": st.dates().map(lambda day: day.isoformat()),
    "o": st.booleans(),
    "x": st.sampled_from(["", "YQ==", "YWJj"]),
    "a": st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=3),
    "r": st.fixed_dictionaries(
        {},
        optional={
            "k": st.none() | st.text(max_size=3),
            "v": st.lists(st.none() | st.just({"w": "2020-02-29", "z": 1.5}), max_size=2),
            "b": st.just("AA=="),
        },
    ),
    "unknown": st.just({"a": [1, {"b": None}]}),
}
good = st.fixed_dictionaries({}, optional=fitting).map(lambda row: json.dumps(row))
mutations = st.tuples(st.integers(0, 200), st.integers(0, 3), st.binary(max_size=3))


def mutated(value: bytes, mutation: tuple[int, int, bytes]) -> bytes:
    place, removed, inserted = mutation
    return value[:place] + inserted + value[place + removed :]


json_values = st.one_of(
    good.map(str.encode),
    good.map(str.encode),
    objects(anything).map(lambda text: text.encode(errors="surrogatepass")),
    anything.map(lambda text: text.encode(errors="surrogatepass")),
    st.builds(mutated, good.map(str.encode), mutations),
    st.none(),
    st.binary(max_size=20),
)
csv_fields = st.one_of(
    texts,
    texts.map(lambda text: '"' + text.replace('"', '""') + '"'),
    st.text(',"\n\r x', max_size=4),
)
good_line = st.builds(
    "{},{},{},{},{},{},{},{}".format,
    st.integers(-(2**31), 2**31 - 1),
    st.text("abcé \t;:'", max_size=5),
    st.one_of(st.just(""), fitting["d"].map(str)),
    fitting["f"],
    st.one_of(st.just(""), st.sampled_from(["1.5", "-3", "1e3", "+.5"])),
    st.one_of(fitting["n"].map(str), fitting["t"].map(str)),
    fitting["y"],
    st.sampled_from(["true", "FALSE", "True", ""]),
)
csv_values = st.one_of(
    good_line.map(str.encode),
    good_line.map(str.encode),
    st.lists(csv_fields, min_size=7, max_size=9).map(
        lambda fields: ",".join(fields).encode(errors="surrogatepass")
    ),
    st.builds(mutated, good_line.map(str.encode), mutations),
    st.none(),
    st.binary(max_size=20),
)
blocks = {"json": st.lists(json_values, max_size=6), "csv": st.lists(csv_values, max_size=6)}


def check(form: Format, values: list[bytes | None]) -> None:
    """The two ways, whole and value by value, and what always holds of a result."""
    column = pa.array(values, pa.binary())
    expected = parse_rows(form, column)
    same(parse_blocks(form, column), expected)
    for number in range(len(values)):
        alone = column[number : number + 1]
        if form.plain(alone)[0].as_py() and (found := form.fast(alone)) is not None:
            same((found, pa.nulls(1, pa.binary())), sliced(expected, number))
    for row, value in enumerate(values):
        corrupt = expected[1][row].as_py()
        assert corrupt in (None, value)
        if value is None or corrupt is not None:
            assert all(not each[row].is_valid for each in expected[0])


def sliced(parsed: Parsed, row: int) -> Parsed:
    return [column[row : row + 1] for column in parsed[0]], parsed[1][row : row + 1]


def same(found: Parsed, expected: Parsed) -> None:
    for one, other in zip((*found[0], found[1]), (*expected[0], expected[1]), strict=True):
        one.validate(full=True)
        assert one.type == other.type
        assert one.equals(other), (one, other)
        if pa.types.is_floating(one.type):
            # -0.0 equals 0.0, and is another value.
            assert repr(one.to_pylist()) == repr(other.to_pylist())


@settings(max_examples=150, deadline=None)
@given(blocks["json"])
# A row of two objects, beside one that gives none.
@example([b'{"i":1}{"i":2}', b""])
@example([b'{"i":1}{"i":2}', b'{"i":3}\0{}', b"{}"])
@example([b'{"i":1', b',"l":2}', b"{}{}"])
@example([b'{"unknown":[', b"]}", b"{}{}"])
@example([b"{}", b"{}}", b"{{}"])
@example([b'{"unknown":NaN}', b'{"d":NaN}', b'{"d": -Infinity}', b'{"s":"NaN"}'])
@example([b'{"m":999999}', b'{"m":1000000}', b'{"m":"1000000"}', b'{"m":999999.9995}'])
@example([b'{"f":1e39}', b'{"d":1.7976931348623159e308}', b'{"unknown":1e999}'])
@example([b'{"s":"\xff"}', b'{"s":"\xed\xa0\x80"}', b'{"\xff":1}'])
def test_json_fast_and_careful(values: list[bytes | None]) -> None:
    check(JSON, values)


@settings(max_examples=150, deadline=None)
@given(blocks["csv"])
@example([b"\xef\xbb\xbf1,,,,,,,", b"\xef\xbb\xbf1,,,,,,,"])
@example([b"", b",,,,,,,", b",,,,,,,\n", b'"1","a ""b""",,,,,,', b'1,"a,\nb",,,,,,'])
@example([b"0x1F,,,,,,,", b"1,,nan,,,,,", b"1,,,inf,,,,", b"1,,,,,,,1", b" 1,,,,,,,"])
def test_csv_fast_and_careful(values: list[bytes | None]) -> None:
    check(CSV, values)


AVRO_SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "bytes"}}},
        {
            "name": "p",
            "type": [
                {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
                "null",
            ],
        },
        {"name": "e", "type": {"type": "enum", "name": "color", "symbols": ["RED", "BLUE"]}},
        {"name": "f", "type": {"type": "fixed", "name": "four", "size": 4}},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
    ],
}
AVRO = value_parser("avro", json.dumps(AVRO_SCHEMA), {})
FRAMED = value_parser("avro", json.dumps(AVRO_SCHEMA), {"avroFraming": "confluent"})


def encoded(**changes: object) -> bytes:
    row = {
        "i": 1,
        "s": "x",
        "t": 5,
        "m": {"k": [b"v"]},
        "p": None,
        "e": "RED",
        "f": b"four",
        "d": 1,
    }
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO_SCHEMA), row | changes)
    return stream.getvalue()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.binary(max_size=40), st.builds(mutated, st.just(encoded()), mutations)))
)
def test_avro_takes_any_bytes(values: list[bytes]) -> None:
    for parser, header in ((AVRO, b""), (FRAMED, b"\0\0\0\0\7")):
        sound = encoded()
        column = pa.array([*(header + value for value in values), header + sound], pa.binary())
        columns, corrupt = parser.parse(column)
        for each in (*columns, corrupt):
            each.validate(full=True)
            assert len(each) == len(values) + 1
        assert corrupt[-1].as_py() is None
        assert columns[0][-1].as_py() == 1
