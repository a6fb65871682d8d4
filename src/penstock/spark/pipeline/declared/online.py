"""What brokers say to a pipeline before it runs: whether they answer, and have its topics.

A sink's topic may be missing: it is made when the first row is written, where the broker allows.
"""

from __future__ import annotations

import re

from penstock.client.blocking.client import connect_blocking
from penstock.model.errors import PenstockError
from penstock.spark.option_values import bootstrap_of, text
from penstock.spark.pipeline.declared.reading import Problem, nearest
from penstock.spark.pipeline.declared.spec import Pipeline, TopicSink, TopicSource


def online_problems(pipeline: Pipeline, file: str) -> list[Problem]:
    """Brokers that do not answer, and topics that are not there."""
    problems: list[Problem] = []
    topics: dict[str, set[str] | None] = {}
    parts = [*pipeline.sources, *pipeline.sinks]
    for part in parts:
        if not isinstance(part, TopicSource | TopicSink):
            continue
        table = "sources" if isinstance(part, TopicSource) else "sinks"
        where = f"{table}.{part.name}"
        bootstrap = bootstrap_of(part.options) or ""
        if bootstrap not in topics:
            try:
                topics[bootstrap] = _topics(bootstrap)
            except PenstockError as error:
                topics[bootstrap] = None
                message = f"cannot reach its broker: {error}"
                problems.append(Problem(file=file, line=None, where=where, message=message))
        there = topics[bootstrap]
        if there is None or isinstance(part, TopicSink):
            continue
        problems += [
            Problem(file=file, line=None, where=where, message=message)
            for message in _missing(part, there)
        ]
    return problems


def _topics(bootstrap: str) -> set[str]:
    with connect_blocking(bootstrap, client_name="penstock-pipeline") as mq:
        return {topic.name for topic in mq.admin.list_topics()}


def _missing(source: TopicSource, there: set[str]) -> list[str]:
    pattern = text(source.options, "subscribePattern")
    if pattern is not None:
        if any(re.fullmatch(pattern, name) for name in there):
            return []
        return [f"reads {pattern!r}, which no topic's name matches."]
    names = (text(source.options, "subscribe") or "").split(",")
    return [
        f"reads {name}, and there is no such topic"
        + (f": {nearest(name, there)}" if there else ".")
        for name in names
        if name.strip() and name.strip() not in there
    ]
