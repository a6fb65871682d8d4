"""R-SPK-4: what an archive refuses, before Spark starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from penstock.model.errors import InvalidConfig, InvalidTopic
from penstock.spark.pipeline import archive as module
from penstock.spark.pipeline.archive import ArchiveOptions, archive
from penstock.spark.pipeline.declared.spec import Trigger
from penstock.spark.pipeline.running.progress import BatchProgress
from penstock.spark.pipeline.running.run import SparkPlace


class Started(Exception):
    """Spark would start now."""


class Nobody:
    """Watches what never runs."""

    def started(self, sinks: int, *, is_sent: bool) -> None:
        raise AssertionError

    def report(self, progress: BatchProgress) -> None:
        raise AssertionError

    def show(self, sink: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        raise AssertionError

    def is_stopping(self) -> bool:
        return False


@pytest.fixture
def attempt(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def start(*_: object) -> NoReturn:
        raise Started

    monkeypatch.setattr(module, "running_spark", start)

    def run(folder: str, *topics: str) -> None:
        options = ArchiveOptions(
            topics=topics,
            folder=folder,
            bootstrap="127.0.0.1:1",
            trigger=Trigger(kind="available-now"),
            target_bytes=1,
        )
        archive(options, SparkPlace(), Nobody())

    return run


def test_only_a_folder_of_this_machine_will_do(
    tmp_path: Path, attempt: Callable[..., None]
) -> None:
    with pytest.raises(InvalidConfig, match="s3a://bucket/x is no folder of this machine"):
        attempt("s3a://bucket/x", "a")
    with pytest.raises(Started):
        attempt(f"file://{tmp_path}/x", "a")
    assert (tmp_path / "x" / "_penstock").is_dir()
    with pytest.raises(InvalidTopic):
        attempt(str(tmp_path / "x"), "a b")


def test_topics_are_added_and_none_without_the_checkpoint_its_files_came_with(
    tmp_path: Path, attempt: Callable[..., None]
) -> None:
    """All of its messages would be archived again."""
    folder = tmp_path / "archive"
    files = folder / "topic=a" / "date=2026-11-16"
    files.mkdir(parents=True)
    (files / "0.parquet").touch()
    with pytest.raises(InvalidConfig, match="of no archive"):
        attempt(str(folder), "b")
    checkpoint = folder / "_penstock" / "checkpoints" / "a"
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").touch()
    for topics in (("a", "b"), ("b",), ("a",)):
        with pytest.raises(Started):
            attempt(str(folder), *topics)
    (checkpoint / "metadata").unlink()
    with pytest.raises(InvalidConfig, match=r"topic=a has files.* put it back, or archive a to"):
        attempt(str(folder), "b", "a")
    with pytest.raises(Started):
        attempt(str(folder), "b")
