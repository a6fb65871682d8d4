"""What Spark's report of a batch says."""

from __future__ import annotations

import json
from typing import Any

from penstock.model.ids import TopicPartition
from penstock.spark.pipeline.running.progress import batch_progress
from penstock.spark.planning.offsets import StreamOffset

PLACES = (TopicPartition("orders", 0), TopicPartition("orders", 1))


def report(end: object, latest: object, **more: Any) -> dict[str, Any]:
    return {
        "batchId": 7,
        "timestamp": "2026-11-16T02:48:50.039Z",
        "batchDuration": 250,
        "numInputRows": 1000,
        "sources": [{"description": "x", "endOffset": end, "latestOffset": latest}],
        "sink": {"numOutputRows": -1},
        **more,
    }


def offsets(first: int, second: int, lost: int = 0) -> dict[str, Any]:
    gone = {PLACES[1]: lost} if lost else {}
    return StreamOffset(
        positions=dict(zip(PLACES, (first, second), strict=True)), lost=gone
    ).to_json()


def test_rates_lag_and_loss() -> None:
    end, latest = offsets(100, 50, lost=3), offsets(120, 45)
    for said in (end, json.dumps(end)):
        progress = batch_progress("totals", report(said, latest))
        assert (progress.query, progress.batch, progress.rows, progress.batch_ms) == (
            "totals", 7, 1000, 250,
        )  # fmt: skip
        assert progress.rows_per_s == 4000.0
        assert progress.lag == 20, "a partition that is ahead of the report makes up for no other"
        assert progress.lost == 3
        assert progress.rows_out is None
        assert progress.state_rows is None
        assert progress.to_json()["lag"] == 20


def test_the_brokers_know_better_how_far_topics_reach() -> None:
    """R-SPK-4: Spark's report says how far they reached when the batch was planned."""
    end, planned = offsets(100, 50), offsets(120, 50)
    now = {PLACES[0]: 130, PLACES[1]: 51}
    for latest in (planned, None):
        assert batch_progress("x", report(end, latest), lambda place: now).lag == 31
    assert batch_progress("x", report(end, planned), lambda place: None).lag == 20


def test_what_is_not_said_is_not_known() -> None:
    for end, latest in ((None, None), (3, 3), ("no json", "{}"), ({}, {}), (offsets(1, 2), None)):
        assert batch_progress("x", report(end, latest)).lag is None
    quick = batch_progress("x", report(None, None, batchDuration=0, sink={"numOutputRows": 5}))
    assert (quick.rows_per_s, quick.rows_out) == (0.0, 5)
    operators = [{"numRowsTotal": 3}, {"numRowsTotal": 4}]
    assert batch_progress("x", report(None, None, stateOperators=operators)).state_rows == 7
