"""A pipeline from its file: read, filled in from the environment and the flags, checked.

No Spark and no broker is asked. The invariant: a pipeline comes out only without problems; and all
problems that can be found come out at once, each with its line.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.declared.functions import check_function
from penstock.spark.pipeline.declared.graph import check_names, check_together, ordered
from penstock.spark.pipeline.declared.locations import located
from penstock.spark.pipeline.declared.parts import (
    Context,
    read_sink,
    read_source,
    read_step,
    read_trigger,
)
from penstock.spark.pipeline.declared.reading import Problem, Problems, Table, attempt
from penstock.spark.pipeline.declared.spec import (
    FunctionStep,
    Pipeline,
    Sink,
    Source,
    Step,
    Trigger,
)
from penstock.spark.pipeline.declared.substitution import substituted
from penstock.spark.pipeline.declared.toml_lines import key_lines

_BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"
_BOOTSTRAP_VARIABLE: Final = "PENSTOCK_BOOTSTRAP"
_MASTER: Final = "spark.master"
_AT_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says about a pipeline, stronger than its file."""

    assignments: Sequence[str] = ()
    """`table.key=value`; a value that is no TOML is taken as a text."""
    checkpoint: str | None = None
    is_once: bool = False
    """Read what is there and end, whatever the trigger."""


NO_FLAGS: Final = Flags()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The pipeline, or what is wrong with it."""

    pipeline: Pipeline | None
    problems: tuple[Problem, ...]


def load(file: str, environment: Mapping[str, str], flags: Flags = NO_FLAGS) -> Loaded:
    """Read the file and check it. InvalidConfig if it cannot be read at all."""
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
    except OSError as error:
        raise InvalidConfig(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidConfig(f"{file} is not UTF-8 text: a pipeline is TOML.") from None
    return load_text(text, file, environment, flags)


def load_text(
    text: str, file: str, environment: Mapping[str, str], flags: Flags = NO_FLAGS
) -> Loaded:
    """The same, with the text at hand. Paths in it are relative to the file's folder."""
    if flags.checkpoint is not None and not flags.checkpoint.strip():
        raise InvalidConfig(f"--checkpoint is {flags.checkpoint!r}: name a folder, or a URL.")
    problems = Problems(file)
    try:
        tables: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _AT_LINE.search(str(error))
        message = f"is no TOML: {_AT_LINE.sub('', str(error))}."
        line = int(at[1]) if at else None
        problem = Problem(file=file, line=line, where="it", message=message)
        return Loaded(pipeline=None, problems=(problem,))
    problems.lines = key_lines(text)
    for assignment in flags.assignments:
        _assign(tables, assignment)
    filled = substituted(
        tables,
        environment,
        lambda path, name: problems.add(path, f"uses ${{{name}}}, which is not set."),
    )
    folder = os.path.dirname(os.path.abspath(file))
    pipeline = _read(Table(filled, (), problems), problems, folder, environment, flags)
    return Loaded(
        pipeline=None if problems.found else pipeline, problems=tuple(_sorted(problems.found))
    )


def _read(
    root: Table, problems: Problems, folder: str, environment: Mapping[str, str], flags: Flags
) -> Pipeline:
    main = root.table("pipeline")
    name = main.text("name")
    if "name" not in main:
        main.problem(None, "has no name.")
    context = Context(
        folder=folder,
        bootstrap=main.text("bootstrap") or environment.get(_BOOTSTRAP_VARIABLE)
        or _BOOTSTRAP_DEFAULT,
    )  # fmt: skip
    trigger, checkpoint = read_trigger(main), main.text("checkpoint")
    main.finish("a pipeline")
    source_tables = root.table("sources")
    sources = _sources(source_tables, context)
    steps = _steps(root, problems)
    sinks = _sinks(root.table("sinks"), context)
    spark = _flattened(root.table("spark"))
    root.finish("a pipeline's file")
    check_names(source_tables.keys, steps, sinks, problems)
    in_order = ordered(steps, problems)
    for number, step in steps:
        if isinstance(step, FunctionStep):
            try:
                check_function(step.module, step.function, folder)
            except InvalidConfig as error:
                attempt(problems, ("steps", number, "function"), error)
    pipeline = Pipeline(
        name=name or "",
        folder=folder,
        trigger=Trigger(kind="available-now") if flags.is_once else trigger,
        checkpoint=context.path(checkpoint) if checkpoint else None,
        spark=spark,
        sources=tuple(sources),
        steps=tuple(in_order),
        sinks=tuple(sinks),
    )
    if flags.checkpoint is not None:
        pipeline = replace(pipeline, checkpoint=located(flags.checkpoint))
    if not problems.found:
        check_together(pipeline, problems)
    return pipeline


def _sources(table: Table, context: Context) -> list[Source]:
    if not table.keys:
        table.problem(None, "is empty: a pipeline reads something.")
    read = [read_source(name, table.table(name), context) for name in table.keys]
    return [source for source in read if source is not None]


def _sinks(table: Table, context: Context) -> list[Sink]:
    if not table.keys:
        table.problem(None, "is empty: a pipeline writes something.")
    read = [read_sink(name, table.table(name), context) for name in table.keys]
    return [sink for sink in read if sink is not None]


def _steps(root: Table, problems: Problems) -> list[tuple[int, Step]]:
    given = root.take("steps")
    if given is None:
        return []
    if not isinstance(given, list):
        root.problem("steps", "is one table: write every step under [[steps]].")
        return []
    read = []
    for number, values in enumerate(given):
        name = values.get("name") if isinstance(values, dict) else None
        problems.labels["steps", number] = name if isinstance(name, str) else f"number {number + 1}"
        read.append((number, read_step(Table(values, ("steps", number), problems))))
    return [(number, step) for number, step in read if step is not None]


def _flattened(table: Table) -> dict[str, str]:
    """The table `spark` as Spark's settings: `sql.shuffle.partitions = 2` under it, or the whole
    name in quotes."""
    settings: dict[str, str] = {}

    def add(table: Table, above: str) -> None:
        for key in table.keys:
            name, value = f"{above}{key}", table.take(key)
            full = name if name.startswith("spark.") else f"spark.{name}"
            if isinstance(value, Mapping):
                add(table.table(key), f"{name}.")
            elif not isinstance(value, str | int | float):
                table.problem(key, "must be a text, a number, true or false.")
            elif full == _MASTER:
                table.problem(key, "is the command's: use --master, or PENSTOCK_SPARK_MASTER.")
            elif full in settings:
                table.problem(key, f"is there twice: {full} is said in another way too.")
            else:
                settings[full] = str(value).lower() if isinstance(value, bool) else str(value)

    add(table, "")
    return settings


def _assign(tables: dict[str, object], assignment: str) -> None:
    """`table.key=value` into the tables. Steps go by their names: `steps.totals.sql=…`."""
    name, equals, text = assignment.partition("=")
    *way, last = name.strip().split(".")
    if not equals or not way or not last:
        raise InvalidConfig(f"{assignment!r} sets nothing: write it as table.key=value.")
    inner: object = tables
    for part in way:
        if isinstance(inner, list):
            tables_in = (each for each in inner if isinstance(each, dict))
            inner = next((each for each in tables_in if each.get("name") == part), None)
        elif isinstance(inner, dict):
            inner = inner.setdefault(part, {})
    if not isinstance(inner, dict):
        raise InvalidConfig(f"{name} names nothing in the file: write it as table.key=value.")
    inner[last] = _value(text.strip())


def _value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _sorted(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: problem.line or 0)
