"""What the parts of a pipeline say of each other: names, inputs, order.

Pure. The invariant: steps come out in an order in which each follows what it reads; where there is
none, the circle is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.spark.pipeline.reading import Problems, nearest
from penstock.spark.pipeline.spec import (
    ParquetSink,
    Pipeline,
    Sink,
    Source,
    SqlStep,
    Step,
    TopicSource,
)


def check_names(
    sources: Sequence[str],
    steps: Sequence[tuple[int, Step]],
    sinks: Sequence[Sink],
    problems: Problems,
) -> None:
    """That names are unique (Spark does not tell cases apart) and that inputs exist. A step comes
    with its number in the file; a source is known even if it is wrong otherwise."""
    known: dict[str, str] = {}
    for name in sources:
        if name.lower() in known:
            problems.add(("sources", name), "differs from another source only in case.")
        known[name.lower()] = name
    for number, step in steps:
        if step.name.lower() in known:
            problems.add(
                ("steps", number, "name"),
                f"is {step.name!r}, as another source or step is named: take another name.",
            )
        known[step.name.lower()] = step.name
    for number, step in steps:
        key = "sql" if isinstance(step, SqlStep) else "inputs"
        for name in step.inputs:
            if name.lower() not in known:
                problems.add(("steps", number, key), _unknown(name, known, "reads"))
    for sink in sinks:
        if sink.input.lower() not in known:
            problems.add(("sinks", sink.name, "from"), _unknown(sink.input, known, "is"))


def ordered(steps: Sequence[tuple[int, Step]], problems: Problems) -> list[Step]:
    """The steps, each after those it reads. A circle is a problem of its first step."""
    by_name = {step.name.lower(): (number, step) for number, step in steps}
    done: list[Step] = []
    under_way: list[str] = []

    def visit(name: str) -> None:
        if name not in by_name or by_name[name][1] in done:
            return
        number, step = by_name[name]
        if name in under_way:
            circle = [by_name[each][1].name for each in [*under_way[under_way.index(name) :], name]]
            problems.add(("steps", number), f"reads what it makes: {' ← '.join(circle)}.")
            done.append(step)
            return
        under_way.append(name)
        for needed in step.inputs:
            visit(needed.lower())
        under_way.pop()
        if step not in done:
            done.append(step)

    for _, step in steps:
        visit(step.name.lower())
    return done


def check_together(pipeline: Pipeline, problems: Problems) -> None:
    """What is right in each part and wrong in all of them together."""
    folders: dict[str, str] = {}
    for sink in pipeline.sinks:
        if not isinstance(sink, ParquetSink):
            continue
        if sink.path in folders:
            problems.add(
                ("sinks", sink.name, "parquet"),
                f"is the folder of sinks.{folders[sink.path]} too: each needs its own.",
            )
        folders[sink.path] = sink.name
    if pipeline.is_batch:
        return
    for sink in pipeline.sinks:
        if isinstance(sink, ParquetSink) and sink.if_exists == "overwrite":
            problems.add(
                ("sinks", sink.name, "if_exists"),
                'is "overwrite", which is for batches: a stream adds to what it wrote before.',
            )
    if pipeline.checkpoint is None:
        problems.add(
            ("pipeline",), "has no checkpoint: give a folder, from which a restart goes on."
        )
    streams = {each.name for each in pipeline.sources if _is_stream(each)}
    readers: dict[str, list[str]] = {}
    for sink in pipeline.sinks:
        read = pipeline.sources_of(sink)
        if not read & streams:
            problems.add(
                ("sinks", sink.name),
                "reads only sources that end, and others of the pipeline do not: "
                "make two pipelines of it.",
            )
        for name in read:
            readers.setdefault(name, []).append(sink.name)
    _check_groups(pipeline, readers, problems)


def _check_groups(
    pipeline: Pipeline, readers: Mapping[str, Sequence[str]], problems: Problems
) -> None:
    for source in pipeline.sources:
        if isinstance(source, TopicSource) and "groupId" in source.options:
            sinks = readers.get(source.name, ())
            if len(sinks) > 1:
                problems.add(
                    ("sources", source.name, "group"),
                    f"would be moved by {len(sinks)} sinks ({', '.join(sinks)}), each at its own "
                    "pace: give each a source of its own.",
                )


def _is_stream(source: Source) -> bool:
    return isinstance(source, TopicSource) and not source.is_bounded


def _unknown(name: str, known: Mapping[str, str], verb: str) -> str:
    hint = nearest(name, set(known.values())) if known else "there is none."
    return f"{verb} {name}, which is neither a source nor a step: {hint}"
