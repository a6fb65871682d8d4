"""The plan of a replay outlives its process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.model.errors import Busy, InvalidConfig
from penstock.spark.pipeline.replay_plan import (
    Place,
    Plan,
    Span,
    Stretch,
    held,
    load_plan,
    load_progress,
    save_plan,
    save_progress,
)
from penstock.spark.pipeline.tables import durable_files

REQUEST = {"--from": "archive", "--where": None}
PLAN = Plan(
    name="replay-1",
    request=REQUEST,
    source_id="topic-1",
    to_ms=None,
    shift_ms=-100,
    stretches=(
        Stretch(
            begin=Place(1, "a", 0, 0), rows=20, spans=(Span("a", 0, 0, 12), Span("a", 1, 3, 15))
        ),
        Stretch(begin=Place(2, "b", 0, 3), rows=5, spans=(Span("b", 0, 3, 8),)),
    ),
)


def load(folder: Path) -> Plan | None:
    return load_plan(str(folder), REQUEST, "topic-1")


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with held(str(folder)):
        assert load(folder) is None
        save_plan(str(folder), PLAN)
    assert load(folder) == PLAN
    assert PLAN.rows == 25


def test_how_far_it_came(tmp_path: Path) -> None:
    assert load_progress(str(tmp_path)) == 0
    save_progress(str(tmp_path), 12)
    assert load_progress(str(tmp_path)) == 12


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    save_plan(str(tmp_path), PLAN)
    with pytest.raises(InvalidConfig, match=r"another replay \(--where differ\)"):
        load_plan(str(tmp_path), {**REQUEST, "--where": "x"}, "topic-1")
    with pytest.raises(InvalidConfig, match=r"another replay \(--bootstrap differ\)"):
        load_plan(str(tmp_path), {**REQUEST, "--bootstrap": "other:9092"}, "topic-1")
    with pytest.raises(InvalidConfig, match="deleted, and made anew"):
        load_plan(str(tmp_path), REQUEST, "topic-2")
    written = (tmp_path / "replay.json").read_text()
    (tmp_path / "replay.json").write_text(written.replace('"version": 1', '"version": 2'))
    with pytest.raises(InvalidConfig, match="newer Penstock"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"5", b"null", b"{}", b'{"version": 1}', b"\xff"])
def test_damaged_files_are_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "replay.json").write_bytes(content)
    with pytest.raises(InvalidConfig, match=r"replay\.json is damaged, or no replay's"):
        load(tmp_path)
    (tmp_path / "written.json").write_bytes(content)
    with pytest.raises(InvalidConfig, match=r"written\.json is damaged: remove it"):
        load_progress(str(tmp_path))


def test_a_half_of_a_plan_is_damage(tmp_path: Path) -> None:
    save_plan(str(tmp_path), PLAN)
    written = (tmp_path / "replay.json").read_text()
    (tmp_path / "replay.json").write_text(written.replace('["a", 0, 0, 12]', '["a", 0, 0]'))
    with pytest.raises(InvalidConfig, match="is damaged"):
        load(tmp_path)


def test_the_name_of_what_was_saved_is_durable_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose name a loss of power takes back was not saved."""
    synced: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(
        durable_files, "sync_folder", lambda folder: synced.append((folder, os.listdir(folder)))
    )
    save_progress(str(tmp_path), 3)
    assert synced == [(str(tmp_path), ["written.json"])]


def test_two_processes_do_not_share_a_checkpoint(tmp_path: Path) -> None:
    with (
        held(str(tmp_path)),
        pytest.raises(Busy, match="Another process replays"),
        held(str(tmp_path)),
    ):
        pass
    with held(str(tmp_path)):
        pass


def test_a_checkpoint_that_cannot_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InvalidConfig, match="cannot be written to: Not a directory"),
        held(str(tmp_path / "file" / "checkpoint")),
    ):
        pass
