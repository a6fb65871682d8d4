"""The parts of a pipeline's file, table by table: pipeline, sources, steps, sinks.

Each reader gives the part, or None where something needed is missing; what is wrong is noted in the
table's problems. What parts say of each other is checked in graph.py.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, cast

from penstock.model.errors import InvalidConfig, PenstockError
from penstock.model.quantity import parse_duration_ms
from penstock.spark.pipeline.declared.locations import is_url, located
from penstock.spark.pipeline.declared.reading import Table, nearest
from penstock.spark.pipeline.declared.spec import (
    ConsoleSink,
    FunctionStep,
    IfExists,
    OutputMode,
    ParquetSink,
    ParquetSource,
    Sink,
    Source,
    SqlStep,
    Step,
    TopicSink,
    TopicSource,
    Trigger,
    Watermark,
)
from penstock.spark.pipeline.declared.sql_tables import tables_of
from penstock.spark.planning.positions import AtEdge, AtTimes
from penstock.spark.sink.options import parse_options as parse_sink_options
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.options import parse_options as parse_source_options

_OUTPUT_MODES: Final = ("append", "update", "complete")
_IF_EXISTS: Final = ("error", "append", "overwrite")
_CONSOLE_ROWS_DEFAULT: Final = 20
_INTERVAL_DEFAULT: Final = "1 second"
# Views of Spark are named so, and a sink's name is a folder of the checkpoint.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MODULE: Final = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<function>[A-Za-z_]\w*)")
_MOMENTS: Final = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the parts of one file share."""

    folder: str
    bootstrap: str

    def path(self, text: str) -> str:
        """A path of the file: relative to it, unless it is absolute or a URL."""
        return located(text, self.folder)


def read_trigger(table: Table) -> Trigger:
    text = table.text("trigger") or _INTERVAL_DEFAULT
    if text in ("available-now", "once"):
        return Trigger(kind="once" if text == "once" else "available-now")
    every_ms = _interval_ms(text)
    if every_ms is None:
        table.problem(
            "trigger", f"is {text!r}: write available-now, once, or how often, as 5 seconds."
        )
        return Trigger(kind="available-now")
    return Trigger(kind="interval", interval_ms=every_ms)


def read_source(name: str, table: Table, context: Context) -> Source | None:
    check_name(name, table)
    kind = table.exactly_one("topic", "topics", "pattern", "parquet")
    if kind == "parquet":
        path, options = table.text("parquet"), table.options("options")
        table.finish("a Parquet source")
        if path is None:
            return None
        path = context.path(path)
        if not is_url(path) and not os.path.exists(path):
            table.problem("parquet", f"is {path}, where there is nothing.")
        return ParquetSource(name=name, path=path, options=options)
    own = _source_options(kind, table, context)
    watermark = _watermark(table)
    options = _merged(table, own)
    table.finish("a source")
    try:
        parsed = parse_source_options(options)
    except PenstockError as error:
        if kind is not None:
            table.problem(None, f"cannot be read: {error}")
        return None
    _check_columns(table, parsed, watermark)
    is_bounded = any(each.lower().startswith("ending") for each in options)
    if is_bounded and _is_empty(parsed):
        table.problem("end" if "end" in table else None, "is not after its start: it is empty.")
    return TopicSource(name=name, options=options, is_bounded=is_bounded, watermark=watermark)


def read_step(table: Table) -> Step | None:
    name = table.text("name")
    if name is None:
        table.problem(None, "has no name: other parts know a step by it.")
    else:
        check_name(name, table)
    kind = table.exactly_one("sql", "function")
    watermark = _watermark(table)
    step: Step | None = None
    if kind == "sql" and (sql := table.text("sql")) is not None:
        try:
            inputs = tuple(tables_of(sql))
        except InvalidConfig as error:
            table.problem("sql", f"is no SQL: {error}")
            inputs = ()
        step = SqlStep(name=name or "", sql=sql, inputs=inputs, watermark=watermark)
        if "inputs" in table:
            table.take("inputs")
            table.problem("inputs", "is for functions: a query names its tables itself.")
    elif kind == "function" and (text := table.text("function")) is not None:
        found, inputs = _MODULE.fullmatch(text), table.texts("inputs")
        if "inputs" not in table:
            table.problem(None, "has no inputs: say which sources or steps the function gets.")
        if found is None:
            table.problem("function", f"is {text!r}: write it as module:function.")
        else:
            step = FunctionStep(
                name=name or "",
                module=found["module"],
                function=found["function"],
                inputs=inputs,
                watermark=watermark,
            )
    table.finish("a step")
    return step if name else None


def read_sink(name: str, table: Table, context: Context) -> Sink | None:
    check_name(name, table)
    input_name = table.text("from")
    if input_name is None and "from" not in table:
        table.problem(None, "has no `from`: say which source or step it writes.")
    match table.exactly_one("topic", "parquet", "console"):
        case "topic":
            sink = _topic_sink(name, input_name or "", table, context)
        case "parquet":
            sink = _parquet_sink(name, input_name or "", table, context)
        case "console":
            sink = _console_sink(name, input_name or "", table)
        case _:
            return None
    return sink if input_name else None


def check_name(name: str, table: Table) -> None:
    if not _NAME.fullmatch(name):
        table.problem(None, f"cannot be named {name!r}: take letters, digits and _.")


def _topic_sink(name: str, input_name: str, table: Table, context: Context) -> Sink | None:
    own: dict[str, str] = {"bootstrap": table.text("bootstrap") or context.bootstrap}
    if (topic := table.text("topic")) is not None:
        own["topic"] = topic
    key, mode = table.text("key"), _output_mode(table)
    value = table.table("value")
    is_json = "value" in table
    if is_json and value.choice("format", ("json",), "") == "" and "format" not in value:
        value.problem(None, "has no format: json makes the whole row a JSON object.")
    value.finish("a value")
    if key is not None and not is_json:
        table.problem(
            "key", 'goes with value = {format = "json"}: else the step makes the column key.'
        )
    options = _merged(table, own)
    table.finish("a topic sink")
    try:
        parse_sink_options(options, is_streaming=True)
    except PenstockError as error:
        table.problem(None, f"cannot be written: {error}")
        return None
    return TopicSink(
        name=name, input=input_name, options=options, key=key, is_json=is_json, output_mode=mode
    )


def _parquet_sink(name: str, input_name: str, table: Table, context: Context) -> Sink | None:
    path, columns = table.text("parquet"), table.texts("partition_by")
    if_exists = table.choice("if_exists", _IF_EXISTS, "error")
    options = table.options("options")
    mode = table.text("output_mode")
    if mode not in (None, "append"):
        table.problem("output_mode", f"is {mode!r}: files can only be added to: leave it out.")
    for number, column in enumerate(columns):
        if column.lower() in [each.lower() for each in columns[:number]]:
            table.problem("partition_by", f"has {column!r} twice.")
        if column.strip()[:1] in ("", "_", "."):
            # Most readers of Parquet skip folders of such names, and their rows.
            table.problem("partition_by", f"has {column!r}: give the column a name with a letter.")
    table.finish("a Parquet sink")
    if path is None:
        return None
    return ParquetSink(
        name=name,
        input=input_name,
        path=context.path(path),
        partition_by=columns,
        if_exists=cast(IfExists, if_exists),
        options=options,
    )


def _console_sink(name: str, input_name: str, table: Table) -> Sink:
    if not table.switch("console"):
        table.problem("console", "is not true: leave the sink out.")
    rows, mode = table.count("rows", _CONSOLE_ROWS_DEFAULT), _output_mode(table)
    table.finish("a console sink")
    return ConsoleSink(name=name, input=input_name, rows_max=rows, output_mode=mode)


def _output_mode(table: Table) -> OutputMode:
    return cast(OutputMode, table.choice("output_mode", _OUTPUT_MODES, "append"))


def _source_options(kind: str | None, table: Table, context: Context) -> dict[str, str]:
    """The keys of a topic source as options of the data source."""
    own = {"bootstrap": table.text("bootstrap") or context.bootstrap}
    match kind:
        case "topic":
            own["subscribe"] = table.text("topic") or ""
        case "topics":
            own["subscribe"] = ",".join(table.texts("topics"))
        case "pattern":
            own["subscribePattern"] = table.text("pattern") or ""
    own |= _position(table, "start", "starting", "earliest")
    own |= _position(table, "end", "ending", None)
    if (group := table.text("group")) is not None:
        own["groupId"] = group
    if table.switch("headers"):
        own["includeHeaders"] = "true"
    if "value" in table:
        value = table.table("value")
        for key, option in (("format", "valueFormat"), ("schema", "valueSchema")):
            text = value.text(key)
            if text is not None:
                own[option] = text
            elif key not in value:
                value.problem(None, f"has no {key}.")
        value.finish("a value")
    return own


def _position(table: Table, key: str, prefix: str, default: str | None) -> dict[str, str]:
    """Where to start or end: an edge, or a moment (one without a zone is in UTC)."""
    value = table.take(key)
    if isinstance(value, str) and value not in ("earliest", "latest"):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            table.problem(key, f"is {value!r}: write earliest, latest, or a time as in RFC 3339.")
            return {}
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return {f"{prefix}Timestamp": str(round(moment.timestamp() * 1000))}
    if value is None:
        value = default
    if value is None or isinstance(value, str):
        return {} if value is None else {f"{prefix}Offsets": value}
    table.problem(key, "must be earliest, latest, or a time.")
    return {}


def _merged(table: Table, own: dict[str, str]) -> dict[str, str]:
    """Our keys and the table `options`, which may not say the same thing twice."""
    options = table.options("options")
    for name in options:
        if name.lower() in {each.lower() for each in own} and name.lower() != "startingoffsets":
            table.problem("options", f"has {name}, for which a source or sink has a key: use that.")
    if any(each.lower().startswith("starting") for each in options) and "start" not in table:
        own = {each: text for each, text in own.items() if not each.startswith("starting")}
    return {**own, **options}


def _watermark(table: Table) -> Watermark | None:
    if "watermark" not in table:
        return None
    inner = table.table("watermark")
    column, delay = inner.text("column"), inner.text("delay")
    for key in ("column", "delay"):
        if key not in inner:
            inner.problem(None, f"has no {key}.")
    inner.finish("a watermark")
    if column is None or delay is None:
        return None
    delay_ms = _interval_ms(delay)
    if delay_ms is None:
        inner.problem("delay", f"is {delay!r}: write a length of time, as 5 seconds or 1 minute.")
        return None
    return Watermark(column=column, delay_ms=delay_ms)


def _interval_ms(text: str) -> int | None:
    """A length of time with its unit: a bare number is seconds to some, and not to others."""
    found = parse_duration_ms(text, unit_needed=True)
    return found if found is not None and found >= 0 else None


def _is_empty(options: SourceOptions) -> bool:
    """Whether a source with an end is known to have nothing before it."""
    match options.start, options.end:
        case AtTimes(times_ms=int(start_ms)), AtTimes(times_ms=int(end_ms)):
            return start_ms >= end_ms
        case AtEdge(edge="latest"), _:
            return True
    return isinstance(options.end, AtEdge) and options.end.edge == "earliest"


def _check_columns(table: Table, options: SourceOptions, watermark: Watermark | None) -> None:
    """Let the parser of values judge the format and the schema, and look for the watermark's column
    in it. It takes no Spark to run."""
    if options.value_format is None and watermark is None:
        return
    from penstock.spark.source.schema import source_schema

    try:
        columns = {field.name.lower(): field for field in source_schema(options).fields}
    except PenstockError as error:
        table.problem("value", f"is wrong: {error}")
        return
    # A field within a column is Spark's to find.
    if watermark is None or not _NAME.fullmatch(watermark.column):
        return
    name, found = watermark.column, columns.get(watermark.column.lower())
    if found is None:
        names = [field.name for field in columns.values()]
        _watermark_problem(table, f"is {name!r}, which is no column of it: {nearest(name, names)}")
    elif found.dataType.typeName() not in _MOMENTS:
        kind = found.dataType.simpleString()
        _watermark_problem(table, f"is {name!r}, which is {kind} and no timestamp.")


def _watermark_problem(table: Table, message: str) -> None:
    table.table("watermark").problem("column", message)
