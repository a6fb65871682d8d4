"""The report as a whole: self-contained, safe, and with everything that was found."""

from __future__ import annotations

import re
from typing import Any

from penstock.spark.inspection import Example, Finding, InspectOptions, Kind, Severity
from penstock.spark.inspection.evidence.tables import (
    DeadLetterRow,
    LagRow,
    LorenzRow,
    PercentileRow,
    SizeRow,
    Tables,
    ThroughputRow,
)
from penstock.spark.inspection.report.page import render
from tests.kit.spark.healthy_topic import key_row, partition_row, topic_row
from tests.unit.spark.inspection.report.test_html import Seen

EVIL = "<script>alert(1)</script>"
FINDING = Finding(
    severity=Severity.CRITICAL,
    kind=Kind.HOLE,
    topic="orders",
    problem=f"4 offsets of {EVIL} are missing.",
    meaning="They are lost.",
    advice="Restore them.",
    count=4,
    examples=(Example(partition=1, offset=113, text=f"from here on {EVIL}"),),
)


def full_tables() -> Tables:
    return Tables(
        topics=(topic_row(),),
        partitions=(partition_row(0, 510), partition_row(1, 0)),
        throughput=(
            ThroughputRow(
                topic="orders", start_ms=60_000, width_ms=60_000, messages=9, stored_bytes=90
            ),
            ThroughputRow(
                topic="orders", start_ms=240_000, width_ms=60_000, messages=3, stored_bytes=30
            ),
        ),
        sizes=(SizeRow(topic="orders", low=96, end=112, messages=12),),
        percentiles=(PercentileRow(topic="orders", measure="delay", share=0.5, value=12),),
        keys=(key_row(EVIL.encode(), 300), key_row(b"\xff\x00", 10)),
        lorenz=(
            LorenzRow(topic="orders", keys_share=0, messages_share=0),
            LorenzRow(topic="orders", keys_share=1, messages_share=1),
        ),
        lag=(
            LagRow(
                topic="orders",
                group=EVIL,
                partition=0,
                committed_offset=0,
                end_offset=5,
                lag=5,
                lost=0,
            ),
        ),
        dead_letters=(
            DeadLetterRow(
                topic="orders.dead",
                cause=f"billing.{EVIL}",
                messages=2,
                first_ms=0,
                last_ms=1,
                partition=0,
                offset=1,
            ),
        ),
    )


def rendered(tables: Tables, *findings: Finding, **options: Any) -> str:
    given = InspectOptions(**({"topics": ("orders",), "bootstrap": "127.0.0.1:9092"} | options))
    return render(given, findings, tables, at_ms=1_790_000_000_000, took_ms=2_500)


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    """R-SPK-3: one self-contained file."""
    page = rendered(full_tables(), FINDING)
    seen = Seen(page)
    names = {name for name, _ in seen.elements}
    assert not names & {"script", "img", "link", "iframe", "object", "embed", "form", "a"}
    for _, attributes in seen.elements:
        assert not any(name.startswith("on") or name in ("src", "href") for name in attributes)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src &#x27;none&#x27;" in page


def test_what_comes_from_outside_is_shown_as_text() -> None:
    page = rendered(full_tables(), FINDING)
    assert "<script" not in page
    texts = "".join(Seen(page).texts)
    assert f"4 offsets of {EVIL} are missing." in texts
    assert r"\xff\x00" in texts


def test_findings_come_first_with_their_offsets() -> None:
    page = rendered(full_tables(), FINDING)
    texts = " ".join(Seen(page).texts)
    assert texts.index("1 critical") < texts.index("Findings") < texts.index("Throughput")
    assert "orders[1] @ 113" in texts


def test_every_chart_is_there_and_says_what_it_is() -> None:
    page = rendered(full_tables(), FINDING)
    for title in (
        "Throughput",
        "Message size",
        "Produce-to-append delay",
        "Key skew",
        "Top keys",
        "Partition balance",
        "Lag",
        "Dead letters",
    ):
        assert f"<b>{title}</b>" in page
    for name, attributes in Seen(page).elements:
        if name == "svg" and "viewbox" not in attributes:
            assert attributes["aria-label"]
    # Two buckets without messages between the two with some are drawn as nothing.
    assert page.count("messages/s</title>") == 2
    assert 'width="24.600%"' in page


def test_light_and_dark_are_chosen_by_the_readers_system() -> None:
    page = rendered(full_tables())
    assert "@media (prefers-color-scheme: dark)" in page
    # Colours are named once, so both schemes have all of them.
    light, dark = re.findall(r":root \{([^}]*)\}", page)
    assert set(re.findall(r"--[a-z-]+(?=:)", light)) == set(re.findall(r"--[a-z-]+(?=:)", dark))


def test_an_empty_topic_makes_a_page_too() -> None:
    row = topic_row(messages=0, batches=0, keys=0, first_ms=None, last_ms=None)
    page = rendered(Tables(topics=(row,), partitions=(partition_row(0, 0),)))
    assert "Nothing wrong was found." in page
    assert "No message has a time." in page


def test_without_a_broker_the_page_says_what_is_left_out() -> None:
    page = rendered(full_tables(), bootstrap=None, path="/data/<x>")
    assert "without a broker" in page
    assert "data folder /data/&lt;x&gt;" in page
