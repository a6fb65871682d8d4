"""The parts of the report: findings, and for each topic its numbers, charts and tables.

What is shown and in which words; how a chart is drawn is `report.charts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.spark.inspection.evidence.tables import Tables, ThroughputRow, TopicRow
from penstock.spark.inspection.finding import Finding, Severity
from penstock.spark.inspection.report.charts import Bar, Column, bars, columns, curve, figure
from penstock.spark.inspection.report.html import Html, element
from penstock.spark.inspection.wording import (
    clock_label,
    counted,
    duration,
    foreign,
    moment,
    share,
    short,
    size,
)

_TOP_KEYS: Final = 8
_GROUPS_MAX: Final = 12


def findings_section(findings: Sequence[Finding], messages: int) -> Html:
    """The findings as cards, the worst first."""
    if not findings:
        card = element(
            "article",
            {"class": "finding good"},
            element("h3", None, "Nothing wrong was found."),
            element(
                "dl",
                None,
                element("dt", None, "Checked"),
                element(
                    "dd",
                    None,
                    f"{counted(messages, 'message')} for holes, duplicates, order, hot keys, slow "
                    f"producers, balance and lag.",
                ),
            ),
        )
        cards = [card]
    else:
        cards = [_card(finding) for finding in findings]
    return element(
        "section",
        {"aria-label": "Findings"},
        element("h2", None, "Findings"),
        element("div", {"class": "findings"}, *cards),
    )


def _card(finding: Finding) -> Html:
    places = [
        element(
            "li",
            None,
            element("code", None, f"{finding.topic}[{place.partition}] @ {place.offset}"),
            f" {place.text}",
        )
        for place in finding.examples
    ]
    return element(
        "article",
        {"class": f"finding {finding.severity.value}"},
        element(
            "header",
            None,
            element("span", {"class": "badge"}, finding.severity.value),
            element("span", None, finding.kind.value),
            element("span", {"class": "mono"}, finding.topic),
        ),
        element("h3", None, finding.problem),
        element(
            "dl",
            None,
            element("dt", None, "It means"),
            element("dd", None, finding.meaning),
            element("dt", None, "What to do"),
            element("dd", {"class": "advice"}, finding.advice),
        ),
        element("ul", {"class": "places", "aria-label": "Offsets"}, *places) if places else None,
    )


def pills(findings: Sequence[Finding]) -> Html:
    """How many findings of each severity."""
    shown = []
    for severity in Severity:
        number = sum(finding.severity is severity for finding in findings)
        if number:
            plural = severity.value if severity is Severity.CRITICAL else f"{severity.value}s"
            text = counted(number, severity.value, plural)
            shown.append(element("span", {"class": f"pill {severity.value}"}, text))
    if not shown:
        shown.append(element("span", {"class": "pill good"}, "no findings"))
    return element("div", {"class": "pills"}, *shown)


def topic_section(topic: TopicRow, tables: Tables) -> Html:
    """One topic: tiles, charts."""
    charts = [
        _throughput(topic, tables),
        _sizes(topic, tables),
        _delays(topic, tables),
        _skew(topic, tables),
        _top_keys(topic, tables),
        _balance(topic, tables),
        _lag(topic, tables),
        _dead_letters(topic, tables),
    ]
    return element(
        "section",
        {"aria-label": f"Topic {topic.topic}"},
        element(
            "h2",
            None,
            topic.topic,
            element("small", None, counted(topic.partitions, "partition")),
        ),
        _tiles(topic, tables),
        element("div", {"class": "charts"}, *charts),
    )


def _tiles(topic: TopicRow, tables: Tables) -> Html:
    codecs = [row for row in tables.codecs if row.topic == topic.topic]
    stored = sum(row.stored_bytes for row in codecs)
    ratio = sum(row.expanded_bytes for row in codecs) / stored if stored else 1.0
    span = duration(topic.last_ms - topic.first_ms) if topic.last_ms and topic.first_ms else "-"
    bound = "" if topic.delay_basis == "append time" else "≥ "
    tiles = (
        ("messages", _whole(topic.messages), f"in {counted(topic.batches, 'batch', 'batches')}"),
        ("stored", size(topic.stored_bytes), f"{size(topic.message_bytes)} of content"),
        ("time span", span, f"until {moment(topic.last_ms)[:16]}"),
        ("keys", _whole(topic.keys), f"{short(topic.unkeyed_messages)} messages without"),
        ("producers", short(topic.producers), "with an id"),
        ("batch", short(round(topic.messages / max(topic.batches, 1), 1)), "messages on average"),
        (
            "delay, median",
            bound + duration(topic.delay_p50_ms),
            f"99 %: {duration(topic.delay_p99_ms)}",
        ),
        (
            "compression",
            f"{ratio:.1f} times",
            ", ".join(sorted({row.codec for row in codecs})) or "-",
        ),
    )
    return element(
        "div",
        {"class": "tiles"},
        *(
            element(
                "div",
                {"class": "tile"},
                element("span", None, name),
                element("b", None, value),
                element("i", None, more),
            )
            for name, value, more in tiles
        ),
    )


def _whole(number: int) -> str:
    """All digits, as long as they fit."""
    return f"{number:,}" if number < 100_000_000 else short(number)


def _throughput(topic: TopicRow, tables: Tables) -> Html:
    rows = [row for row in tables.throughput if row.topic == topic.topic]
    if not rows:
        return _nothing("Throughput", "No message has a time.")
    width_ms = rows[0].width_ms
    buckets = _filled(rows)
    labels = [
        (at / len(buckets), clock_label(buckets[at].start_ms, width_ms))
        for at in {0, len(buckets) // 4, len(buckets) // 2, 3 * len(buckets) // 4}
    ]
    seconds = width_ms / 1000
    return figure(
        "Throughput",
        f"messages and bytes a second, in steps of {duration(width_ms)}, UTC",
        columns(
            [
                Column(
                    row.messages / seconds,
                    f"{moment(row.start_ms)}: {short(row.messages / seconds)} messages/s",
                )
                for row in buckets
            ],
            [],
            lambda value: f"{short(value)}/s",
            name="Messages a second over time",
        ),
        columns(
            [
                Column(
                    row.stored_bytes / seconds,
                    f"{moment(row.start_ms)}: {size(row.stored_bytes / seconds)}/s",
                )
                for row in buckets
            ],
            labels,
            lambda value: f"{size(value)}/s",
            name="Bytes a second over time",
            look="low",
            tone="second",
            base=1024,
        ),
        wide=True,
    )


def _filled(rows: Sequence[ThroughputRow]) -> list[ThroughputRow]:
    """The buckets from the first to the last, those without messages too."""
    by_start = {row.start_ms: row for row in rows}
    first = rows[0]
    return [
        by_start.get(start)
        or ThroughputRow(
            topic=first.topic,
            start_ms=start,
            width_ms=first.width_ms,
            messages=0,
            stored_bytes=0,
        )
        for start in range(first.start_ms, rows[-1].start_ms + 1, first.width_ms)
    ]


def _sizes(topic: TopicRow, tables: Tables) -> Html:
    rows = [row for row in tables.sizes if row.topic == topic.topic]
    if not rows:
        return _nothing("Message size", "There is no message.")
    values = [
        Column(row.messages, f"{size(row.low)} to {size(row.end)}: {row.messages:,} messages")
        for row in rows
    ]
    every = -(-len(rows) // 5)
    labels = [((index + 0.5) / len(rows), size(row.low)) for index, row in enumerate(rows)][::every]
    return figure(
        "Message size",
        f"key, value and headers: half are up to {size(topic.size_p50)}, 99 % up to "
        f"{size(topic.size_p99)}",
        columns(values, labels, short, name="Messages by size"),
    )


def _delays(topic: TopicRow, tables: Tables) -> Html:
    rows = [row for row in tables.percentiles if (row.topic, row.measure) == (topic.topic, "delay")]
    if not rows:
        return _nothing("Produce-to-append delay", "No message has a create time.")
    most = max(row.value for row in rows) or 1
    basis = (
        "exact: the broker's time of the append less the producer's"
        if topic.delay_basis == "append time"
        else "a lower bound, from create times around each message"
    )
    return figure(
        "Produce-to-append delay",
        basis,
        bars(
            [
                Bar(
                    "longest" if row.share == 1 else f"{100 * row.share:g} %",
                    row.value / most,
                    duration(row.value),
                    f"{100 * row.share:g} % of the messages: up to {duration(row.value)}",
                )
                for row in rows
            ]
        ),
    )


def _skew(topic: TopicRow, tables: Tables) -> Html:
    points = [
        (row.keys_share, row.messages_share) for row in tables.lorenz if row.topic == topic.topic
    ]
    if not points:
        return _nothing("Key skew", "No message has a key.")
    return figure(
        "Key skew",
        f"Gini {topic.gini:.2f} over {counted(topic.keys, 'key')}; on the dashed line all keys "
        f"are equal",
        curve(
            points,
            [(0.0, "rare keys"), (1.0, "frequent keys")],
            name=f"Lorenz curve of keys, Gini {topic.gini:.2f}",
        ),
    )


def _top_keys(topic: TopicRow, tables: Tables) -> Html:
    rows = [row for row in tables.keys if row.topic == topic.topic][:_TOP_KEYS]
    if not rows:
        return _nothing("Top keys", "No message has a key.")
    most = rows[0].share
    return figure(
        "Top keys",
        "share of the messages with a key",
        bars(
            [
                Bar(
                    foreign(row.key) or "(empty)",
                    row.share / most,
                    share(row.share),
                    f"{foreign(row.key)}: {row.messages:,} messages",
                )
                for row in rows
            ]
        ),
    )


def _balance(topic: TopicRow, tables: Tables) -> Html:
    rows = [row for row in tables.partitions if row.topic == topic.topic]
    most = max((row.messages for row in rows), default=0) or 1
    average = topic.messages / max(len(rows), 1)
    return figure(
        "Partition balance",
        f"messages by partition; the average is {short(round(average, 1))}",
        bars(
            [
                Bar(
                    f"{row.partition}",
                    row.messages / most,
                    short(row.messages),
                    f"partition {row.partition}: {row.messages:,} messages, "
                    f"{size(row.stored_bytes)}",
                )
                for row in rows
            ]
        ),
    )


def _lag(topic: TopicRow, tables: Tables) -> Html | None:
    rows = [row for row in tables.lag if row.topic == topic.topic]
    if not rows:
        return None
    groups = {row.group: 0 for row in rows}
    for row in rows:
        groups[row.group] += row.lag
    worst = sorted(groups.items(), key=lambda item: -item[1])[:_GROUPS_MAX]
    most = worst[0][1] or 1
    return figure(
        "Lag",
        "messages that each group has not read yet",
        bars(
            [
                Bar(group, lag / most, short(lag), f"{group}: {lag:,} messages behind")
                for group, lag in worst
            ]
        ),
    )


def _dead_letters(topic: TopicRow, tables: Tables) -> Html | None:
    names = {row.topic for row in tables.dead_letters if row.topic.startswith(topic.topic)}
    rows = [row for row in tables.dead_letters if row.topic in names][:_GROUPS_MAX]
    if not rows:
        return None
    most = rows[0].messages
    return figure(
        "Dead letters",
        f"by cause, in {', '.join(sorted(names))}",
        bars(
            [
                Bar(
                    row.cause.rsplit(".", 1)[-1] or row.cause,
                    row.messages / most,
                    short(row.messages),
                    f"{row.cause}: {row.messages:,}",
                    tone="warning",
                )
                for row in rows
            ]
        ),
    )


def _nothing(title: str, why: str) -> Html:
    return figure(title, "", element("p", {"class": "empty"}, why))
