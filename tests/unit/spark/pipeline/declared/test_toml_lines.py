"""Every key of a TOML file has its line."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.pipeline.declared.toml_lines import Path, key_lines, line_of

TEXT = '''# comment with [a.table] and key = 1
name = "x"

[sources.orders]   # comment
topic = "orders"
value = { format = "json", schema = "a = 1" }
text = """
not = "a key"
[not.a.table]
"""
raw = \'\'\'
neither = 1
\'\'\'
list = [
  "[x]",
  { a = 1 },
]
after."the dot".key = 1

[[steps]]
name = "one"
[[steps]]
name = "two"
"quoted name" = 1
'''


def test_lines_of_headers_and_keys() -> None:
    tomllib.loads(TEXT)
    lines = key_lines(TEXT)
    assert lines == {
        ("name",): 2,
        ("sources", "orders"): 4,
        ("sources", "orders", "topic"): 5,
        ("sources", "orders", "value"): 6,
        ("sources", "orders", "text"): 7,
        ("sources", "orders", "raw"): 11,
        ("sources", "orders", "list"): 14,
        ("sources", "orders", "after"): 18,
        ("sources", "orders", "after", "the dot"): 18,
        ("sources", "orders", "after", "the dot", "key"): 18,
        ("steps",): 20,
        ("steps", 0): 20,
        ("steps", 0, "name"): 21,
        ("steps", 1): 22,
        ("steps", 1, "name"): 23,
        ("steps", 1, "quoted name"): 24,
    }


def test_a_key_without_a_line_has_that_of_what_is_around_it() -> None:
    lines = key_lines(TEXT)
    assert line_of(lines, ("sources", "orders", "value", "schema")) == 6
    assert line_of(lines, ("sources", "orders", "missing")) == 4
    assert line_of(lines, ("nowhere",)) is None


NAMES = st.text("abc_", min_size=1, max_size=3)
VALUES = st.sampled_from(
    ['"x"', "1", "[1, 2]", '"""\n a = 1\n"""', "'''[t]'''", "[\n1,\n]", "{b = 1}"]
)


@given(st.lists(st.tuples(NAMES, st.dictionaries(NAMES, VALUES, max_size=3)), max_size=4))
def test_made_up_files(tables: list[tuple[str, dict[str, str]]]) -> None:
    lines: list[str] = []
    expected: dict[Path, int] = {}
    for table, values in dict(tables).items():
        expected[table,] = len("\n".join([*lines, ""]).split("\n")) if lines else 1
        lines.append(f"[{table}]")
        for key, value in values.items():
            expected[table, key] = "\n".join([*lines, ""]).count("\n") + 1
            lines.append(f"{key} = {value}")
    text = "\n".join(lines)
    tomllib.loads(text)
    assert key_lines(text) == expected
