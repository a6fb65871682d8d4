"""Expressions of any shape mean what SQL says, by SQLite's word; and any text is parsed or refused,
soon.

SQLite's columns have types and our headers do not, so a header is given to it as three columns:
its text, its number and its truth, and an expression is written in both ways at once. Left out are
the two places where SQLite does something of its own: truths that are compared as numbers, and an
escape character that stands before any other.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.coordination.filter.filters import CompiledFilter, Filter, parse_filter
from penstock.coordination.filter.values import number_of, truth_of
from penstock.model.errors import InvalidFilter
from penstock.records import BatchBuilder, Selection, decode_messages
from penstock.records.header import check_batch

NAMES = ("a", "b", "with-dash")
NOW_MS = 1_700_000_000_000


class Written(NamedTuple):
    """One expression, as we and as SQLite write it."""

    ours: str
    theirs: str


def text_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def column(name: str, kind: str) -> str:
    return f'"{name}_{kind}"'


def ours_name(name: str) -> str:
    return f'"{name}"' if "-" in name else name


# SQLite ends texts at a NUL here and there.
letters = st.sampled_from(["a", "b", "e", "é", "%", "_", "'", " ", "1", "-", "."])
texts = st.text(letters, max_size=5) | st.sampled_from(["true", "FALSE", "12", "-3", "1.5", "abab"])
integers = st.integers(-20, 20) | st.sampled_from([2**62, 2**63 - 1, -(2**63) + 1])
floats = st.floats(-1e6, 1e6).map(lambda number: round(number, 3)) | st.sampled_from([1e300])
number_literals = (integers | floats).map(lambda number: Written(f"({number})", f"({number})"))
names = st.sampled_from(NAMES)
fields_as_numbers = names.map(lambda name: Written(ours_name(name), column(name, "number")))
times = st.just(Written("timestamp", '"time"'))
numbers = st.recursive(
    number_literals | fields_as_numbers | times,
    lambda inner: (
        st.builds(
            lambda left, sign, right: Written(
                f"({left.ours} {sign} {right.ours})", f"({left.theirs} {sign} {right.theirs})"
            ),
            inner,
            st.sampled_from("+-*/"),
            inner,
        )
        | inner.map(lambda one: Written(f"- {one.ours}", f"- {one.theirs}"))
    ),
    max_leaves=4,
)
# Something of which it is sure that it is a number, so that a header beside it is taken for one.
sure_numbers = number_literals | numbers.map(
    lambda one: Written(f"({one.ours} + 0)", f"({one.theirs} + 0)")
)
text_operands = names.map(lambda name: Written(ours_name(name), column(name, "text"))) | texts.map(
    lambda text: Written(text_literal(text), text_literal(text))
)
signs = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])


def infix(left: Written, sign: str, right: Written) -> Written:
    return Written(f"{left.ours} {sign} {right.ours}", f"{left.theirs} {sign} {right.theirs}")


def between(one: Written, word: str, low: Written, high: Written) -> Written:
    return Written(
        f"{one.ours} {word} {low.ours} AND {high.ours}",
        f"{one.theirs} {word} {low.theirs} AND {high.theirs}",
    )


def in_list(one: Written, word: str, many: list[Written]) -> Written:
    ours, theirs = (", ".join(each) for each in zip(*many, strict=True))
    return Written(f"{one.ours} {word} ({ours})", f"{one.theirs} {word} ({theirs})")


def like(one: Written, word: str, pattern: str, escape: str | None) -> Written:
    tail = "" if escape is None else f" ESCAPE {text_literal(escape)}"
    if escape is not None:
        pattern = pattern.replace(escape, escape * 2)
    literal = text_literal(pattern)
    return Written(f"{one.ours} {word} {literal}{tail}", f"{one.theirs} {word} {literal}{tail}")


def maybe_not(word: str) -> st.SearchStrategy[str]:
    return st.sampled_from([word, f"NOT {word}"])


listed_texts = texts.map(lambda text: Written(text_literal(text), text_literal(text)))
listed_numbers = (integers | floats).map(lambda number: Written(str(number), str(number)))
predicates = st.one_of(
    st.builds(infix, text_operands, signs, text_operands),
    st.builds(infix, numbers, signs, sure_numbers),
    st.builds(infix, sure_numbers, signs, numbers),
    st.builds(between, text_operands, maybe_not("BETWEEN"), text_operands, text_operands),
    st.builds(between, sure_numbers, maybe_not("BETWEEN"), numbers, numbers),
    st.builds(in_list, text_operands, maybe_not("IN"), st.lists(listed_texts, min_size=1)),
    st.builds(in_list, sure_numbers, maybe_not("IN"), st.lists(listed_numbers, min_size=1)),
    st.builds(like, text_operands, maybe_not("LIKE"), texts, st.none() | st.sampled_from("a!")),
    names.map(
        lambda name: Written(f"{ours_name(name)} IS NULL", f"{column(name, 'text')} IS NULL")
    ),
    names.map(lambda name: Written(ours_name(name), column(name, "truth"))),
)
conditions = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.builds(infix, inner, st.sampled_from(["AND", "OR", "and", "or"]), inner),
        inner.map(lambda one: Written(f"({one.ours})", f"({one.theirs})")),
        inner.map(lambda one: Written(f"NOT ({one.ours})", f"NOT ({one.theirs})")),
        inner.map(lambda one: Written(f"NOT {one.ours}", f"NOT {one.theirs}")),
    ),
    max_leaves=6,
)
contents = st.none() | texts.map(str.encode) | integers.map(lambda number: b"%d" % number)
headers = st.fixed_dictionaries(dict.fromkeys(NAMES, contents))


def attempt(expression: str) -> CompiledFilter | InvalidFilter:
    try:
        return parse_filter(Filter(expression=expression))
    except InvalidFilter as refused:
        return refused


def by_sqlite(condition: str, found: dict[str, bytes | None], timestamp_ms: int) -> bool | None:
    columns: dict[str, str | int | float | bool | None] = {"time": timestamp_ms}
    for name, content in found.items():
        columns[f"{name}_text"] = None if content is None else content.decode()
        columns[f"{name}_number"] = None if content is None else number_of(content)
        columns[f"{name}_truth"] = None if content is None else truth_of(content)
    with sqlite3.connect(":memory:") as database:
        database.execute("PRAGMA case_sensitive_like = ON")
        named = ", ".join(f'? AS "{name}"' for name in columns)
        query = f"SELECT {condition} FROM (SELECT {named})"
        [(answer,)] = database.execute(query, list(columns.values()))
    database.close()
    return None if answer is None else bool(answer)


@settings(max_examples=500, deadline=None)
@given(conditions, st.lists(headers, min_size=1, max_size=3), st.integers(0, 2**41))
def test_expressions_mean_what_sql_says(
    written: Written, messages: list[dict[str, bytes | None]], timestamp_ms: int
) -> None:
    """R-DEL-12: SQL92, three truths included."""
    compiled = attempt(written.ours)
    if isinstance(compiled, InvalidFilter):
        assert "more than" in compiled.message, written.ours
        return
    opposite = parse_filter(Filter(expression=f"NOT ({written.ours})"))
    for found in messages:
        answer = by_sqlite(written.theirs, found, timestamp_ms)
        assert compiled.matches(None, timestamp_ms, found.items()) is (answer is True), written.ours
        assert opposite.matches(None, timestamp_ms, found.items()) is (answer is False)


words = st.sampled_from(
    [
        *("a", "b", "key", "tag", "timestamp", '"q"', '""'),
        *("AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "BETWEEN", "IS", "NULL", "TRUE", "FALSE"),
        *("(", ")", ",", "=", "<>", "<", "<=", "+", "-", "*", "/"),
        *("1", "2.5", "1e9", "'x'", "'x%_'", "'!'", "''", ".", "!", "é", "\x00", "\n"),
    ]
)


@settings(max_examples=1000, deadline=None)
@given(st.text(max_size=200) | st.lists(words, max_size=200).map(" ".join), st.binary(max_size=9))
def test_any_text_is_parsed_or_refused(text: str, content: bytes) -> None:
    """R-DEL-12: nothing but InvalidFilter; what was parsed can be asked."""
    compiled = attempt(text)
    if isinstance(compiled, InvalidFilter):
        assert all(line.isprintable() for line in compiled.message.split("\n"))
    elif text:
        found = [(name, content) for name in ("a", "b", "q", "penstock-tag")]
        assert isinstance(compiled.matches(content, 5, found), bool)
        assert isinstance(compiled.matches(None, -1, ()), bool)


@settings(max_examples=200, deadline=None)
@given(conditions, st.lists(headers, min_size=1, max_size=20), st.integers(0, 4))
def test_a_batch_is_asked_as_its_messages_are(
    written: Written, messages: list[dict[str, bytes | None]], codec: int
) -> None:
    """R-DEL-12: what the broker takes out of the bytes is what a consumer would see in them."""
    compiled = attempt(written.ours)
    if isinstance(compiled, InvalidFilter):
        return
    builder = BatchBuilder(1 << 20, codec)
    for number, found in enumerate(messages):
        builder.append(NOW_MS + number, b"%d" % number, b"value", list(found.items()))
    batch = memoryview(bytearray(builder.build()))
    expected = [
        message.offset
        for message in decode_messages(batch, "orders", 0, 0)
        if compiled.matches(message.key, message.timestamp_ms, message.headers)
    ]
    selection = Selection(
        check_batch(batch),
        batch,
        1 << 20,
        0,
        compiled.encoded_places,
        compiled.needs_key,
        compiled.test,
    )
    while selection.look(2):
        pass
    assert selection.kept_count == len(expected)
