"""What a pipeline is, once its file has been read and found right: plain data, no Spark.

The invariant: every name that one part uses of another exists, and the steps are in an order in
which each comes after what it reads. Paths are absolute, lengths of time are milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

OutputMode = Literal["append", "update", "complete"]
IfExists = Literal["error", "append", "overwrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When a stream looks for more: every so often, or only until it has read what is there."""

    kind: Literal["interval", "available-now", "once"]
    interval_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """How late rows may be, by one of their columns."""

    column: str
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """Topics, read through the data source `penstock` with these options of it."""

    name: str
    options: Mapping[str, str]
    is_bounded: bool
    """Whether it is read up to an end, and not for ever."""
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSource:
    """A folder of Parquet files, as it is when the pipeline starts."""

    name: str
    path: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStep:
    """A query over sources and earlier steps, which are tables of their names."""

    name: str
    sql: str
    inputs: tuple[str, ...]
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionStep:
    """A Python function that gets the DataFrames of its inputs and returns one."""

    name: str
    module: str
    function: str
    inputs: tuple[str, ...]
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSink:
    """Rows to a topic, exactly once, with these options of the data source."""

    name: str
    input: str
    options: Mapping[str, str]
    key: str | None
    """A SQL expression for the messages' keys; None: the column `key`, if there is one."""
    is_json: bool
    """Whether a message's value is the whole row as a JSON object."""
    output_mode: OutputMode


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSink:
    """Rows to a folder of Parquet files, each exactly once for whatever reads the folder."""

    name: str
    input: str
    path: str
    partition_by: tuple[str, ...]
    if_exists: IfExists
    """What a batch does with a folder that has files already; streams go on with it."""
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSink:
    """The first rows of every batch, to look at."""

    name: str
    input: str
    rows_max: int
    output_mode: OutputMode


Source = TopicSource | ParquetSource
Step = SqlStep | FunctionStep
Sink = TopicSink | ParquetSink | ConsoleSink


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A whole pipeline."""

    name: str
    folder: str
    """Where its file is: its modules are looked for there too."""
    trigger: Trigger
    checkpoint: str | None
    spark: Mapping[str, str]
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...]

    @property
    def is_batch(self) -> bool:
        """Whether all sources end, so that it is computed once."""
        return all(isinstance(each, ParquetSource) or each.is_bounded for each in self.sources)

    def sources_of(self, sink: Sink) -> set[str]:
        """The names of the sources that a sink reads, through whatever steps."""
        inputs = {step.name.lower(): step.inputs for step in self.steps}
        found: set[str] = set()
        waiting = [sink.input.lower()]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += [each.lower() for each in inputs.get(name, ())]
        return {source.name for source in self.sources if source.name.lower() in found}

    @property
    def streams(self) -> list[TopicSource]:
        """The sources that do not end."""
        return [
            source
            for source in self.sources
            if isinstance(source, TopicSource) and not source.is_bounded
        ]

    def streams_of(self, sink: Sink) -> list[TopicSource]:
        """Those of them that a sink reads."""
        names = self.sources_of(sink)
        return [source for source in self.streams if source.name in names]
