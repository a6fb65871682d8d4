"""Builds a pipeline's sources and steps in Spark: a DataFrame and a view for each.

Not the sinks (sinks.py). The invariant: when all of it is built nothing has been read, except what
Spark looks at to know columns; and what Spark does not accept is told with the part it is of.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.declared.functions import load_function, module_file
from penstock.spark.pipeline.declared.locations import for_spark
from penstock.spark.pipeline.declared.spec import (
    FunctionStep,
    ParquetSource,
    Pipeline,
    Source,
    Step,
    Watermark,
)
from penstock.spark.pipeline.running.errors import sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Frames = dict[str, "DataFrame"]
"""By the names of sources and steps in lower case: Spark does not tell cases apart."""


def build_frames(spark: SparkSession, pipeline: Pipeline, work_folder: str) -> Frames:
    """Everything up to the sinks. The work folder is for packages of the user's modules."""
    frames: Frames = {}
    for source in pipeline.sources:
        with part(f"sources.{source.name}"):
            _keep(frames, source.name, _read(spark, source, is_batch=pipeline.is_batch))
    for step in pipeline.steps:
        with part(f"steps.{step.name}"):
            _keep(frames, step.name, _take(spark, pipeline, step, frames, work_folder))
    return frames


@contextmanager
def part(name: str) -> Iterator[None]:
    """Errors of whatever kind become one sentence that begins with the part's name."""
    try:
        yield
    # A step is the user's own code: it may raise anything.
    except Exception as error:
        raise InvalidConfig(f"{name}: {sentence(error)}") from error


def _keep(frames: Frames, name: str, frame: DataFrame) -> None:
    frame.createOrReplaceTempView(name)
    frames[name.lower()] = frame


def _read(spark: SparkSession, source: Source, *, is_batch: bool) -> DataFrame:
    if isinstance(source, ParquetSource):
        return spark.read.options(**source.options).parquet(for_spark(source.path))
    if is_batch or source.is_bounded:
        return spark.read.format("penstock").options(**source.options).load()
    frame = spark.readStream.format("penstock").options(**source.options).load()
    return _with_watermark(frame, source.watermark)


def _take(
    spark: SparkSession, pipeline: Pipeline, step: Step, frames: Frames, work_folder: str
) -> DataFrame:
    from pyspark.sql import DataFrame

    if not isinstance(step, FunctionStep):
        return _with_watermark(spark.sql(step.sql), step.watermark)
    if (path := module_file(step.module, pipeline.folder)) is not None:
        # Executors find the module by its name, if its functions are used in rows.
        spark.sparkContext.addPyFile(_packed(path, work_folder))
    function = load_function(step.module, step.function, pipeline.folder)
    frame = function(*(frames[name.lower()] for name in step.inputs))
    if not isinstance(frame, DataFrame):
        raise InvalidConfig(
            f"{step.module}:{step.function} returned {type(frame).__name__}, not a DataFrame."
        )
    return _with_watermark(frame, step.watermark)


def _with_watermark(frame: DataFrame, watermark: Watermark | None) -> DataFrame:
    if watermark is None or not frame.isStreaming:
        return frame
    return frame.withWatermark(watermark.column, f"{watermark.delay_ms} milliseconds")


def _packed(path: str, work_folder: str) -> str:
    """A module as it is; a package as a zip, which is what Spark takes."""
    if not os.path.isdir(path):
        return path
    parent, name = os.path.split(path)
    return shutil.make_archive(os.path.join(work_folder, name), "zip", parent, name)
