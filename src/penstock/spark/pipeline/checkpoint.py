"""What a checkpoint is of: the pipeline, and what each of its sinks reads. Kept in its root.

Spark keeps a sink's positions there, and knows neither the pipeline nor its topics: run with other
topics, it drops the positions of those it does not read, and a run after that would read them
again. The invariant: a topic that a sink has read from is read by every later run of that sink, and
a checkpoint is of one pipeline; else the run is refused before anything is read.

Not Spark's own files, but for a look at whether a sink's query has begun: a mistake that is
corrected before the first batch needs no other checkpoint.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.model.errors import InvalidConfig, StorageFailed
from penstock.spark.options import parse_options
from penstock.spark.pipeline.locations import beneath, is_url
from penstock.spark.pipeline.spec import Pipeline, Sink
from penstock.spark.pipeline.table import sync_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VERSION: Final = 1
_RECORD: Final = "pipeline.json"
_OFFSETS: Final = "offsets"
_REMEDY: Final = "give this run a checkpoint of its own, in the file or by --checkpoint."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What a sink reads as a stream, through whatever sources and steps."""

    topics: Sequence[str]
    patterns: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    pipeline: str
    sinks: Mapping[str, _Reading]


class Files(Protocol):
    """The files of a checkpoint."""

    def read(self, name: str) -> bytes | None:
        """None where there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Make it the file's content."""

    def names(self, folder: str) -> list[str]:
        """What is in a folder; nothing where there is none."""


def claim_here(pipeline: Pipeline) -> None:
    """Refuse the checkpoint of something else, and note what this one is of, before Spark starts.
    InvalidConfig says how to go on. A checkpoint that only Spark reaches is `claim_there`'s."""
    if pipeline.is_batch or pipeline.checkpoint is None or is_url(pipeline.checkpoint):
        return
    try:
        _claim(pipeline, pipeline.checkpoint, _LocalFiles(pipeline.checkpoint))
    except OSError as error:
        raise InvalidConfig(
            f"{pipeline.checkpoint} cannot be a checkpoint: {error.strerror or error}."
        ) from None


def claim_there(pipeline: Pipeline, spark: SparkSession) -> None:
    """The same for a checkpoint with a URL, before the first query starts."""
    if not pipeline.is_batch and pipeline.checkpoint is not None and is_url(pipeline.checkpoint):
        _claim(pipeline, pipeline.checkpoint, HadoopFiles(pipeline.checkpoint, spark))


def _claim(pipeline: Pipeline, root: str, files: Files) -> None:
    content = files.read(_RECORD)
    now = _Record(
        pipeline=pipeline.name,
        sinks={sink.name: _reading(pipeline, sink) for sink in pipeline.sinks},
    )
    if content is not None:
        before = _parsed(content, beneath(root, _RECORD))
        begun = {name for name in before.sinks if _has_begun(files, name)}
        _check(before, now, begun, root)
        kept = {name: reading for name, reading in before.sinks.items() if name in begun}
        now = _Record(pipeline=now.pipeline, sinks={**kept, **now.sinks})
        if now == before:
            return
    files.write(_RECORD, json.dumps({"version": _VERSION, **asdict(now)}).encode())


def _check(before: _Record, now: _Record, begun: set[str], root: str) -> None:
    if begun and before.pipeline != now.pipeline:
        raise InvalidConfig(
            f"The checkpoint {root} is of the pipeline {before.pipeline}, and this is "
            f"{now.pipeline}: {_REMEDY}"
        )
    for name in sorted(begun & now.sinks.keys()):
        old, new = before.sinks[name], now.sinks[name]
        left = [each for each in old.topics if each not in new.topics]
        left += [f"names like {each}" for each in old.patterns if each not in new.patterns]
        if left:
            raise InvalidConfig(
                f"sinks.{name} read {', '.join(left)} before, by the checkpoint {root}, which "
                f"would forget how far: {_REMEDY}"
            )


def _reading(pipeline: Pipeline, sink: Sink) -> _Reading:
    selections = [parse_options(each.options).selection for each in pipeline.streams_of(sink)]
    return _Reading(
        topics=sorted({topic for each in selections for topic in each.topics}),
        patterns=sorted({each.pattern for each in selections if each.pattern is not None}),
    )


def _has_begun(files: Files, sink: str) -> bool:
    """Whether its query has planned a batch."""
    return any(name.isdigit() for name in files.names(f"{sink}/{_OFFSETS}"))


def _parsed(content: bytes, path: str) -> _Record:
    try:
        document: dict[str, Any] = json.loads(content)
        if document["version"] != _VERSION:
            raise StorageFailed(f"{path} was written by a newer Penstock: use that one.")
        return _Record(
            pipeline=str(document["pipeline"]),
            sinks={
                str(name): _Reading(
                    topics=[str(each) for each in reading["topics"]],
                    patterns=[str(each) for each in reading["patterns"]],
                )
                for name, reading in document["sinks"].items()
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StorageFailed(
            f"{path} is damaged: it says what the checkpoint is of; restore it, or take another "
            "checkpoint."
        ) from None


class _LocalFiles:
    """A folder of this machine."""

    def __init__(self, root: str) -> None:
        self._root = root

    def read(self, name: str) -> bytes | None:
        try:
            with open(os.path.join(self._root, name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        os.makedirs(self._root, exist_ok=True)
        path = os.path.join(self._root, name)
        with open(f"{path}.new", "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)
        sync_folder(self._root)

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(os.path.join(self._root, folder))
        except FileNotFoundError:
            return []


class HadoopFiles:
    """Whatever Spark reaches, by Hadoop's file systems."""

    def __init__(self, root: str, spark: SparkSession) -> None:
        # Spark gives Python no public way to them.
        self._hadoop: Any = spark.sparkContext._jvm.org.apache.hadoop  # type: ignore[union-attr]  # noqa: SLF001
        self._root = self._hadoop.fs.Path(root)
        self._system = self._root.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001

    def read(self, name: str) -> bytes | None:
        path = self._path(name)
        if not self._system.exists(path):
            return None
        opened = self._system.open(path)
        try:
            return bytes(opened.readAllBytes())
        finally:
            opened.close()

    def write(self, name: str, content: bytes) -> None:
        opened = self._system.create(self._path(name), True)
        try:
            opened.write(bytearray(content))
        finally:
            opened.close()

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        return [each.getPath().getName() for each in self._system.listStatus(path)]

    def _path(self, name: str) -> Any:
        return self._hadoop.fs.Path(self._root, name)
