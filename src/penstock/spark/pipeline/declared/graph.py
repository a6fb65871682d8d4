"""What the parts of a pipeline say of each other: names, inputs, order.

Pure. The invariant: steps come out in an order in which each follows what it reads; where there is
none, the circle is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.model.ids import TopicPartition
from penstock.spark.option_values import bootstrap_of
from penstock.spark.pipeline.declared.locations import beneath
from penstock.spark.pipeline.declared.reading import Problems, nearest
from penstock.spark.pipeline.declared.spec import (
    ParquetSink,
    Pipeline,
    Sink,
    SqlStep,
    Step,
    TopicSink,
    TopicSource,
)
from penstock.spark.source.logs import is_selected
from penstock.spark.source.options import parse_options


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
    _check_folders(pipeline, problems)
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
    readers: dict[str, list[str]] = {}
    for sink in pipeline.sinks:
        if not pipeline.streams_of(sink):
            problems.add(
                ("sinks", sink.name),
                "reads only sources that end, and others of the pipeline do not: "
                "make two pipelines of it.",
            )
        for name in pipeline.sources_of(sink):
            readers.setdefault(name, []).append(sink.name)
    _check_groups(pipeline, readers, problems)
    _check_circles(pipeline, problems)


def _check_folders(pipeline: Pipeline, problems: Problems) -> None:
    """That no folder of Parquet is another's too, nor inside it, where its readers find it."""
    folders: list[tuple[str, str]] = []
    checkpoints: list[tuple[str, str]] = []
    if pipeline.checkpoint is not None and not pipeline.is_batch:
        checkpoints = [
            (f"the checkpoint of sinks.{sink.name}", beneath(pipeline.checkpoint, sink.name))
            for sink in pipeline.sinks
        ]
    for sink in pipeline.sinks:
        if not isinstance(sink, ParquetSink):
            continue
        path = sink.path.rstrip("/")
        relations = [(_relation(path, other), whose) for whose, other in folders]
        # What is behind a _ is out of the readers' sight: many keep a checkpoint so.
        relations += [
            (_relation(path, other), whose)
            for whose, other in checkpoints
            if not other.removeprefix(f"{path}/").startswith("_")
        ]
        for relation, whose in relations:
            if relation is not None:
                message = f"{relation.format(whose)}: each needs its own."
                problems.add(("sinks", sink.name, "parquet"), message)
                break
        folders.append((f"the folder of sinks.{sink.name}", path))


def _relation(path: str, other: str) -> str | None:
    if path == other:
        return "is {} too"
    if path.startswith(f"{other}/"):
        return "is inside {}"
    return "has inside it {}" if other.startswith(f"{path}/") else None


def _check_circles(pipeline: Pipeline, problems: Problems) -> None:
    """That no sink's rows come back to it, by its topic, through whatever sinks: they would be
    written again for ever."""
    sinks = [sink for sink in pipeline.sinks if isinstance(sink, TopicSink)]
    for sink in sinks:
        # The sinks that its rows come to, each with those they pass on the way.
        reached: dict[str, list[str]] = {}
        waiting: list[tuple[TopicSink, list[str]]] = [(sink, [])]
        for feeder, way in waiting:
            for each in sinks:
                if each.name not in reached and _feeds(feeder, pipeline.streams_of(each)):
                    reached[each.name] = way
                    waiting.append((each, [*way, f"sinks.{each.name}"]))
        if sink.name in reached:
            way = reached[sink.name]
            through = f" through {', '.join(way)}" if way else ""
            problems.add(
                ("sinks", sink.name, "topic"),
                f"is {sink.options['topic']}, which leads back to it{through}: its rows would go "
                "round for ever; write to another topic.",
            )


def _feeds(sink: TopicSink, sources: Sequence[TopicSource]) -> bool:
    """Whether one of the sources reads the sink's topic, as far as addresses tell."""
    place = TopicPartition(sink.options["topic"], 0)
    return any(
        is_selected(parse_options(source.options).selection, place)
        and _addresses(source.options) & _addresses(sink.options)
        for source in sources
    )


def _addresses(options: Mapping[str, str]) -> set[str]:
    return {address.strip() for address in (bootstrap_of(options) or "").split(",")}


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


def _unknown(name: str, known: Mapping[str, str], verb: str) -> str:
    hint = nearest(name, set(known.values())) if known else "there is none."
    return f"{verb} {name}, which is neither a source nor a step: {hint}"
