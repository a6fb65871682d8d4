"""A file is replaced whole, and its name is durable when it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.spark.pipeline.tables import durable_files
from penstock.spark.pipeline.tables.durable_files import DRAFT, replace_file


def test_the_old_content_stays_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    replace_file(str(path), b"old")
    monkeypatch.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(OSError("killed")))
    with pytest.raises(OSError, match="killed"):
        replace_file(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert (tmp_path / f"state{DRAFT}").read_bytes() == b"new"


def test_the_name_is_made_durable_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(
        durable_files, "sync_folder", lambda folder: seen.append((folder, os.listdir(folder)))
    )
    replace_file(str(tmp_path / "state"), b"x")
    assert seen == [(str(tmp_path), ["state"])]
