"""How a query is getting on, from what Spark reports of each batch.

A report is JSON; who asks the brokers is a parameter. The invariant: what is not known is None, and
not zero.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.spark.pipeline.running.lag import Latest
from penstock.spark.planning.offsets import ABOUT, StreamOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """One batch of one query."""

    query: str
    batch: int
    time: str
    """When it began, as Spark writes it (UTC)."""
    rows: int
    rows_per_s: float
    """Of this batch, from its begin to its end."""
    rows_out: int | None
    batch_ms: int
    lag: int | None
    """Messages that were there and not read yet when it was told of, right after its end; when it
    was planned, where another followed too soon or the broker did not answer."""
    state_rows: int | None
    lost: int
    """Offsets that were gone before the query could read them, since it exists."""

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def batch_progress(
    query: str, report: Mapping[str, Any], latest: Latest | None = None
) -> BatchProgress:
    """What a report of Spark's says. latest: who knows better how far topics reach."""
    batch_ms = int(report.get("batchDuration") or 0)
    rows = int(report.get("numInputRows") or 0)
    sources = [source for source in report.get("sources", ()) if isinstance(source, Mapping)]
    lags = [lag for source in sources if (lag := _lag(source, latest)) is not None]
    out = int(report.get("sink", {}).get("numOutputRows", -1))
    operators = report.get("stateOperators", ())
    return BatchProgress(
        query=query,
        batch=int(report["batchId"]),
        time=str(report.get("timestamp", "")),
        rows=rows,
        rows_per_s=round(rows * 1000 / batch_ms, 1) if batch_ms else 0.0,
        rows_out=out if out >= 0 else None,
        batch_ms=batch_ms,
        lag=sum(lags) if lags else None,
        state_rows=sum(int(each.get("numRowsTotal", 0)) for each in operators) or None,
        lost=sum(_lost(source) for source in sources),
    )


def _lag(source: Mapping[str, Any], latest: Latest | None) -> int | None:
    end, planned = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
    if end is None:
        return None
    ends = None if latest is None else latest(end)
    if ends is None:
        ends = None if planned is None else planned.positions
    if ends is None:
        return None
    return sum(max(0, offset - end.positions.get(place, 0)) for place, offset in ends.items())


def _lost(source: Mapping[str, Any]) -> int:
    end = _offset(source.get("endOffset"))
    return 0 if end is None else end.lost_total


def _offset(value: object) -> StreamOffset | None:
    """An offset of our source, which Spark gives as JSON or as a text that holds JSON; None for
    those of others."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
    if not isinstance(parsed, dict) or ABOUT not in parsed:
        return None
    return StreamOffset.from_json(parsed)
