"""The plan of a replay outlives its process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.replay_plan import (
    Place,
    Plan,
    load_plan,
    next_chunk,
    save_next_chunk,
    save_plan,
)

REQUEST = {"--from": "archive", "--where": None}
PLAN = Plan(
    name="replay-1",
    request=REQUEST,
    from_ms=5,
    to_ms=None,
    shift_ms=-100,
    rows=25,
    chunk_rows=10,
    begins=(Place(1, "a", 0, 0), Place(2, "a", 1, 7), Place(2, "b", 0, 3)),
)


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = str(tmp_path / "new" / "folder")
    assert load_plan(folder, REQUEST) is None
    save_plan(folder, PLAN)
    assert load_plan(folder, REQUEST) == PLAN
    assert [PLAN.rows_of(chunk) for chunk in range(3)] == [10, 10, 5]


def test_how_far_it_came(tmp_path: Path) -> None:
    assert next_chunk(str(tmp_path)) == 0
    save_next_chunk(str(tmp_path), 2)
    assert next_chunk(str(tmp_path)) == 2


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    folder = str(tmp_path)
    save_plan(folder, PLAN)
    with pytest.raises(InvalidConfig, match=r"another replay \(--where differ\)"):
        load_plan(folder, {**REQUEST, "--where": "x"})
    for text in ("", "[]", "{}", '{"version": 1}'):
        (tmp_path / "replay.json").write_text(text)
        with pytest.raises(InvalidConfig, match=r"replay\.json is no replay's"):
            load_plan(folder, REQUEST)
    save_plan(folder, replace(PLAN))
    written = (tmp_path / "replay.json").read_text()
    (tmp_path / "replay.json").write_text(written.replace('"version": 1', '"version": 2'))
    with pytest.raises(InvalidConfig, match="newer Penstock"):
        load_plan(folder, REQUEST)
