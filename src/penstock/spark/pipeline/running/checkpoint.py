"""What a checkpoint is of: one pipeline, and what each of its sinks has read.

Spark keeps a sink's positions there, one for each stream of its plan, known by nothing but their
order. Run with other topics, or with streams that have changed places, a stream would drop the
positions of topics it does not select, and they would be read again from their start. The
invariant: each topic that a sink has a position of is selected by the stream that the position goes
to, and a checkpoint is of one pipeline; else the run is refused before anything is read.

What has been read stands in Spark's own files; ours, in the root, only has the pipeline's name. So
a mistake that comes to no batch leaves nothing behind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.model.errors import InvalidConfig, StorageFailed
from penstock.spark.pipeline.declared.locations import beneath, is_url
from penstock.spark.pipeline.declared.spec import FunctionStep, Pipeline
from penstock.spark.pipeline.tables.durable_files import replace_file
from penstock.spark.planning.offsets import ABOUT, StreamOffset
from penstock.spark.source.logs import is_selected
from penstock.spark.source.options import Selection, parse_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VERSION: Final = 1
_RECORD: Final = "pipeline.json"
_OFFSETS: Final = "offsets"
_SPARK_VERSION: Final = "v1"
_REMEDY: Final = "give this run a checkpoint of its own, in the file or by --checkpoint."

Positions = Sequence[StreamOffset | None]
"""Of a sink's streams, in their plan's order; None where there is none yet, and where the stream is
of another data source."""


class Files(Protocol):
    """The files of a checkpoint."""

    def read(self, name: str) -> bytes | None:
        """None where there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Make it the file's content."""

    def names(self, folder: str) -> list[str]:
        """What is in a folder; nothing where there is none."""


def claim_here(pipeline: Pipeline) -> None:
    """Refuse the checkpoint of something else, and note whose this one is, before Spark starts.
    InvalidConfig says how to go on. The rest is `claim_there`'s."""
    if pipeline.is_batch or pipeline.checkpoint is None or is_url(pipeline.checkpoint):
        return
    with _reaching(pipeline.checkpoint):
        _claim(pipeline, pipeline.checkpoint, _LocalFiles(pipeline.checkpoint))


def claim_there(pipeline: Pipeline, spark: SparkSession, frames: Mapping[str, DataFrame]) -> None:
    """What needs Spark, before the first query starts: a checkpoint with a URL, and the order of
    each sink's streams, which is known when Spark has its plan. Frames by names in lower case."""
    if pipeline.is_batch or pipeline.checkpoint is None:
        return
    root = pipeline.checkpoint
    files: Files = HadoopFiles(root, spark) if is_url(root) else _LocalFiles(root)
    if is_url(root):
        _claim(pipeline, root, files)
    for sink in pipeline.sinks:
        with _reaching(root):
            positions = _newest(files, sink.name, root)
        if positions is not None:
            check_streams(sink.name, root, positions, streams_in(frames[sink.input.lower()]))


def _claim(pipeline: Pipeline, root: str, files: Files) -> None:
    content = files.read(_RECORD)
    name = None if content is None else _parsed(content, beneath(root, _RECORD))
    if name not in (None, pipeline.name) and any(
        _last_batch(files, sink) is not None for sink in files.names(".")
    ):
        raise InvalidConfig(
            f"The checkpoint {root} is of the pipeline {name}, and this is {pipeline.name}: "
            f"{_REMEDY}"
        )
    # Which of its streams a sink reads is known by its plan, and so are those of a function's own.
    if not any(isinstance(step, FunctionStep) for step in pipeline.steps):
        selections = [parse_options(each.options).selection for each in pipeline.streams]
        for sink in pipeline.sinks:
            for position in _newest(files, sink.name, root) or ():
                _check_position(sink.name, root, position, selections)
    if name != pipeline.name:
        document = {"version": _VERSION, "pipeline": pipeline.name}
        files.write(_RECORD, json.dumps(document).encode())


def check_streams(
    sink: str, root: str, positions: Positions, streams: Sequence[Selection | None]
) -> None:
    """That each position goes to a stream that selects its topics, or InvalidConfig."""
    if len(positions) != len(streams):
        raise InvalidConfig(
            f"sinks.{sink} had {len(positions)} streams before, by the checkpoint {root}, and has "
            f"{len(streams)} now, which cannot be told apart: keep their number, or {_REMEDY}"
        )
    for position, selection in zip(positions, streams, strict=True):
        _check_position(sink, root, position, [] if selection is None else [selection])


def _check_position(
    sink: str, root: str, position: StreamOffset | None, selections: Sequence[Selection]
) -> None:
    left = {
        partition.topic
        for partition in (position.positions if position is not None else ())
        if not any(is_selected(each, partition) for each in selections)
    }
    if left:
        raise InvalidConfig(
            f"sinks.{sink} read {', '.join(sorted(left))} before, by the checkpoint {root}, which "
            f"would forget how far: keep the topics and the order of its streams, or {_REMEDY}"
        )


def streams_in(frame: DataFrame) -> list[Selection | None]:
    """What each stream of its plan selects, in the order in which Spark keeps their positions; None
    for those of other data sources."""
    # Spark gives Python no public way to a plan. Its MicroBatchExecution takes every streaming
    # relation of the analyzed one, from left to right: of a view that is there twice, both.
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001
    found: list[Selection | None] = []
    for leaf in (leaves.apply(number) for number in range(leaves.size())):
        match leaf.getClass().getSimpleName():
            case "StreamingRelationV2" if leaf.sourceName() == "penstock":
                options = dict(leaf.extraOptions().asCaseSensitiveMap())
                found.append(parse_options(options).selection)
            case "StreamingRelationV2" | "StreamingRelation" | "StreamingExecutionRelation":
                found.append(None)
    return found


def _newest(files: Files, sink: str, root: str) -> Positions | None:
    """Where the last batch that was planned ends; None if none ever was."""
    name = _last_batch(files, sink)
    return None if name is None else _parsed_positions(files.read(name) or b"", beneath(root, name))


def _last_batch(files: Files, sink: str) -> str | None:
    folder = f"{sink}/{_OFFSETS}"
    numbers = [int(name) for name in files.names(folder) if name.isdecimal()]
    return f"{folder}/{max(numbers)}" if numbers else None


def _parsed_positions(content: bytes, path: str) -> Positions:
    """Spark's file: its version, what it notes of the batch, and a line for each stream."""
    version, _, rest = content.partition(b"\n")
    if version.strip() != _SPARK_VERSION.encode() or not rest:
        raise StorageFailed(
            f"{path} is damaged, or of a Spark that this Penstock does not know: restore it, or "
            "take another checkpoint."
        )
    return [_position(line) for line in rest.splitlines()[1:]]


def _position(line: bytes) -> StreamOffset | None:
    try:
        document = json.loads(line)
    except ValueError:
        return None
    is_ours = isinstance(document, dict) and ABOUT in document
    return StreamOffset.from_json(document) if is_ours else None


def _parsed(content: bytes, path: str) -> str:
    """The name in the record."""
    try:
        document: dict[str, Any] = json.loads(content)
        if document["version"] != _VERSION:
            raise StorageFailed(f"{path} was written by a newer Penstock: use that one.")
        return str(document["pipeline"])
    except (ValueError, KeyError, TypeError):
        raise StorageFailed(
            f"{path} is damaged: it says what the checkpoint is of; restore it, or take another "
            "checkpoint."
        ) from None


@contextmanager
def _reaching(root: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidConfig(f"{root} cannot be a checkpoint: {error.strerror or error}.") from None


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
        replace_file(os.path.join(self._root, name), content)

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(os.path.join(self._root, folder))
        except (FileNotFoundError, NotADirectoryError):
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
