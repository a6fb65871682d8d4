"""`penstock pipeline`: pipelines on Spark, of a file or built in.

Spark is imported by the commands that run it, when they run. The invariant: a mistake of the file,
a broker that is down, a Java that is missing are one sentence each; `--debug` shows the rest.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import FAILED, INTERRUPTED, note, show_json
from penstock.cli.pipeline import archive as pipeline_archive
from penstock.cli.pipeline import inspect as pipeline_inspect
from penstock.cli.pipeline import replay as pipeline_replay
from penstock.cli.pipeline.common import MASTER_DEFAULT, Debug, Master, one_sentence
from penstock.cli.runtime import Json

if TYPE_CHECKING:
    from penstock.spark.pipeline.declared.load import Flags, Loaded
    from penstock.spark.pipeline.declared.reading import Problem
    from penstock.spark.pipeline.declared.spec import Pipeline

app = typer.Typer(
    help="Run pipelines on Spark: topics and Parquet, through SQL, to topics and Parquet.",
    no_args_is_help=True,
)

File = Annotated[str, typer.Argument(metavar="FILE", help="The pipeline, as TOML.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Another value of the file, as sources.orders.topic=test; repeatable.",
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Where a restart goes on from, instead of the file's."),
]


@app.command()
def run(
    file: File,
    master: Master = MASTER_DEFAULT,
    checkpoint: Checkpoint = None,
    once: Annotated[bool, typer.Option("--once", help="Read what is there now, and end.")] = False,
    set_: Assignments = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a pipeline.

    Run again, it goes on where it stopped. Ctrl-C ends it after the batch it is at: exit code 0,
    or 130 if it would have come to an end by itself. All keys of the file: docs/pipelines.md.

    \b
    Examples:
      penstock pipeline run orders.toml
      penstock pipeline run orders.toml --once --json
      penstock pipeline run orders.toml --master spark://10.0.0.1:7077
      penstock pipeline run orders.toml --set sources.orders.topic=test --checkpoint test
    """
    from penstock.cli.pipeline.output import PipelineOutput
    from penstock.spark.pipeline.declared.load import Flags

    flags = Flags(assignments=set_ or [], checkpoint=checkpoint, is_once=once)
    with one_sentence(is_debug=debug):
        pipeline = _right_or_exit(file, flags)
        from penstock.spark.pipeline.running.run import SparkPlace, run_pipeline

        output = PipelineOutput(pipeline.name, as_json=as_json)
        place = SparkPlace(master=master, is_debug=debug)
        with output.shown(is_stream=not pipeline.is_batch):
            is_done = run_pipeline(pipeline, place, output)
    if not is_done and pipeline.trigger.kind != "interval":
        raise typer.Exit(INTERRUPTED)


@app.command()
def validate(
    file: File,
    online: Annotated[
        bool, typer.Option("--online", help="Also ask the brokers whether the topics are there.")
    ] = False,
    checkpoint: Checkpoint = None,
    set_: Assignments = None,
    as_json: Json = False,
) -> None:
    """Say everything that is wrong with a pipeline, before Spark starts.

    \b
    Examples:
      penstock pipeline validate orders.toml
      penstock pipeline validate orders.toml --online
    """
    from penstock.spark.pipeline.declared.load import Flags

    loaded = _load(file, Flags(assignments=set_ or [], checkpoint=checkpoint))
    problems = list(loaded.problems)
    if online and loaded.pipeline is not None:
        from penstock.spark.pipeline.declared.online import online_problems

        problems += online_problems(loaded.pipeline, file)
    if as_json:
        show_json(
            [
                {"file": each.file, "line": each.line, "key": each.where, "message": each.message}
                for each in problems
            ]
        )
    elif problems:
        _show_problems(problems)
    elif loaded.pipeline is not None:
        note(f"{file} is right: {_summary(loaded.pipeline)}.")
    if problems:
        raise typer.Exit(FAILED)


app.command()(pipeline_archive.archive)
app.command()(pipeline_replay.replay)
app.command()(pipeline_inspect.inspect)


def _right_or_exit(file: str, flags: Flags) -> Pipeline:
    """The pipeline; with mistakes in it, all of them are told and the command ends."""
    loaded = _load(file, flags)
    if loaded.pipeline is None:
        _show_problems(loaded.problems)
        raise typer.Exit(FAILED)
    return loaded.pipeline


def _load(file: str, flags: Flags) -> Loaded:
    from penstock.spark.pipeline.declared.load import load

    return load(file, os.environ, flags)


def _show_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        note(f"{typer.style('error:', fg='red', bold=True)} {problem}")


def _summary(pipeline: Pipeline) -> str:
    kind = "a batch" if pipeline.is_batch else "a stream"
    parts = (
        (pipeline.sources, "source"),
        (pipeline.steps, "step"),
        (pipeline.sinks, "sink"),
    )
    counts = [f"{len(each)} {name}{'' if len(each) == 1 else 's'}" for each, name in parts]
    return f"{kind}, {', '.join(counts)}"
