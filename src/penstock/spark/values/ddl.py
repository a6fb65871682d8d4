"""Spark's way to write a schema, `id BIGINT, items ARRAY<STRUCT<sku: STRING, n: INT>>`, read here.

PySpark has it read by the JVM, and where a data source is planned and read there is none. Not all
of SQL's types: those that a value can have. The invariant: a text is understood as Spark would
understand it, or refused with the place where that ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.model.errors import InvalidConfig

SIMPLE: Final[dict[str, type[DataType]]] = {
    "boolean": BooleanType,
    "tinyint": ByteType,
    "byte": ByteType,
    "smallint": ShortType,
    "short": ShortType,
    "int": IntegerType,
    "integer": IntegerType,
    "bigint": LongType,
    "long": LongType,
    "float": FloatType,
    "real": FloatType,
    "double": DoubleType,
    "string": StringType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestampType,
    "timestamp_ltz": TimestampType,
    "timestamp_ntz": TimestampNTZType,
}
_DECIMAL: Final = ("decimal", "dec", "numeric")
_TEXT: Final = ("char", "character", "varchar")
_PRECISION_MAX: Final = 38
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<word>\w+) | `(?P<quoted>(?:[^`]|``)+)` | (?P<text>'[^']*'|"[^"]*")
    | (?P<sign>[<>(),:]) | (?P<end>$))""",
    re.VERBOSE,
)


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse_ddl(text: str) -> StructType:
    """The columns that the text names, all nullable; InvalidConfig where it makes no sense."""
    reader = _Reader(text)
    if reader.next_is_word("struct") and reader.second_is("<"):
        reader.take()
        fields = reader.fields_in_angles()
    else:
        fields = reader.fields("end")
    reader.expect("end")
    return StructType(fields)


class _Reader:
    """The tokens of a text, taken one by one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0

    def take(self) -> _Token:
        token = self._tokens[self._next]
        # The last token is the end; whoever takes it again finds it again.
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def next_is(self, sign: str) -> bool:
        token = self._tokens[self._next]
        return sign in ((token.text,) if token.kind == "sign" else (token.kind,))

    def second_is(self, sign: str) -> bool:
        return self._tokens[self._next + 1].text == sign

    def next_is_word(self, word: str) -> bool:
        token = self._tokens[self._next]
        return token.kind == "word" and token.text.lower() == word

    def expect(self, sign: str) -> None:
        if not self.next_is(sign):
            raise self.unexpected("the end" if sign == "end" else repr(sign))
        self.take()

    def unexpected(self, wanted: str) -> InvalidConfig:
        token = self._tokens[self._next]
        found = "it ends" if token.kind == "end" else f"it has {token.text!r}"
        return InvalidConfig(
            f"valueSchema cannot be read: {found} at position {token.position}, where {wanted} "
            f"should be; write it like 'id BIGINT, name STRING'."
        )

    def fields(self, end: str) -> list[StructField]:
        fields = [self._field()]
        while not self.next_is(end):
            self.expect(",")
            fields.append(self._field())
        return fields

    def fields_in_angles(self) -> list[StructField]:
        self.expect("<")
        fields = self.fields(">")
        self.expect(">")
        return fields

    def _field(self) -> StructField:
        if self._tokens[self._next].kind not in ("word", "quoted"):
            raise self.unexpected("a column's name")
        name = self.take()
        if self.next_is(":"):
            self.take()
        data_type = self._type()
        # A row that does not parse has no values, so that a column can always be null.
        if self.next_is_word("not"):
            self.take()
            if not self.next_is_word("null"):
                raise self.unexpected("NULL")
            self.take()
        if self.next_is_word("comment"):
            self.take()
            self.expect("text")
        return StructField(name.text, data_type)

    def _type(self) -> DataType:
        if self._tokens[self._next].kind != "word":
            raise self.unexpected("a type")
        word = self.take().text.lower()
        if word in SIMPLE:
            return SIMPLE[word]()
        if word in _DECIMAL:
            return self._decimal()
        if word == "struct":
            return StructType(self.fields_in_angles())
        if word == "array":
            self.expect("<")
            element = self._type()
            self.expect(">")
            return ArrayType(element)
        if word == "map":
            self.expect("<")
            key = self._type()
            self.expect(",")
            value = self._type()
            self.expect(">")
            return MapType(key, value)
        advice = "use STRING" if word in _TEXT else "see docs/spark-values.md for those it can have"
        raise InvalidConfig(f"valueSchema has the type {word.upper()!r}: {advice}.")

    def _decimal(self) -> DecimalType:
        precision, scale = 10, 0
        if self.next_is("("):
            self.take()
            precision = self._number()
            if self.next_is(","):
                self.take()
                scale = self._number()
            self.expect(")")
        if not 1 <= precision <= _PRECISION_MAX or scale > precision:
            raise InvalidConfig(
                f"valueSchema has DECIMAL({precision},{scale}): it can have 1 to {_PRECISION_MAX} "
                f"digits, and no more of them behind the point than in all."
            )
        return DecimalType(precision, scale)

    def _number(self) -> int:
        token = self._tokens[self._next]
        if token.kind != "word" or not (token.text.isascii() and token.text.isdecimal()):
            raise self.unexpected("a number")
        return int(self.take().text)


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidConfig(
                f"valueSchema cannot be read from position {position} on, "
                f"{text[position : position + 20]!r}: write it like 'id BIGINT, name STRING'."
            )
        kind = match.lastgroup
        assert kind is not None
        found = match[kind]
        yield _Token(
            kind, found.replace("``", "`") if kind == "quoted" else found, match.start(kind)
        )
        if kind == "end":
            return
        position = match.end()
