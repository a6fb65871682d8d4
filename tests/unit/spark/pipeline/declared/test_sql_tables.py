"""Which tables a query reads: those that must be the pipeline's, and no others."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.declared.sql_tables import tables_of


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM orders", ["orders"]),
        ("select a from Orders o, `pay ments` AS p, x", ["Orders", "pay ments", "x"]),
        ("SELECT * FROM a JOIN b USING (id) LEFT OUTER JOIN c ON a.id = c.id", ["a", "b", "c"]),
        ("SELECT * FROM (SELECT * FROM a) WHERE id IN (SELECT id FROM b)", ["a", "b"]),
        ("WITH t AS (SELECT * FROM a), u(x) AS (SELECT 1 FROM t) SELECT * FROM u, T", ["a"]),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("WITH t AS (SELECT * FROM u), u AS (SELECT * FROM t) SELECT * FROM u", ["u"]),
        ("SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t) JOIN t", ["t"]),
        ("WITH t AS (SELECT 1) SELECT * FROM (SELECT * FROM t) UNION SELECT * FROM T", []),
        ("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n FROM t) SELECT * FROM t", []),
        ("SELECT sum(x) OVER w FROM a WINDOW w AS (PARTITION BY y), v AS (ORDER BY z)", ["a"]),
        ("SELECT * FROM (SELECT * FROM a) AS x(y, z), b", ["a", "b"]),
        ("SELECT * FROM (a JOIN b USING (id)), (c) d, e", ["a", "b", "c", "e"]),
        ("SELECT * FROM range(10) r, parquet.`/x` p, a TABLESAMPLE (5 ROWS) t, b", ["a", "b"]),
        (
            "SELECT * FROM a JOIN b ON f(a.x, 1) = b.x, c GROUP BY d, e ORDER BY f, g",
            ["a", "b", "c"],
        ),
        ("SELECT * FROM a LATERAL VIEW explode(x) t AS k, v", ["a"]),
        ("SELECT *, (SELECT max(x) FROM b), y FROM a WHERE x IN (1, 2)", ["b", "a"]),
        ("FROM a |> SELECT x, y |> JOIN b USING (x) |> EXTEND 1 AS z, 2 AS w", ["a", "b"]),
        ("SELECT extract(year FROM at), trim(both ' ' FROM x) FROM a", ["a"]),
        ("SELECT a IS NOT DISTINCT FROM b FROM c", ["c"]),
        ("SELECT 'FROM x', \"FROM y\" FROM a -- FROM b\n /* FROM c */", ["a"]),
        ("SELECT 'it''s FROM x' FROM a", ["a"]),
        ("SELECT * FROM range(10), parquet.`/x`, db.t", []),
        ("SELECT * FROM a LATERAL VIEW explode(x) t AS y", ["a"]),
        ("SELECT * FROM a, LATERAL (SELECT 1)", ["a"]),
        ("SELECT * FROM VALUES (1), (2)", []),
        ("SELECT * FROM a UNION ALL SELECT * FROM b WHERE x > 1", ["a", "b"]),
        ("SELECT 1", []),
        ("SELECT * FROM", []),
        ("SELECT * FROM a JOIN", ["a"]),
    ],
)
def test_tables(sql: str, expected: list[str]) -> None:
    assert tables_of(sql) == expected


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "no SQL"),
        ("-- only a comment", "no SQL"),
        ("SELECT (1 FROM a", r"\( is not closed"),
        ("SELECT 1) FROM a", r"\) too many"),
        ("SELECT 'x FROM a", "' is not closed"),
        ("SELECT `x FROM a", "` is not closed"),
        ("SELECT 1 /* FROM a", "is not closed"),
    ],
)
def test_what_cannot_be_sql(sql: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        tables_of(sql)
