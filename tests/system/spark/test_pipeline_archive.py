"""R-SPK-4: topics to Parquet and back, by the command, exactly once whatever is killed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import penstock
from tests.kit.processes.brokers import BrokerProcess
from tests.system.spark.pipeline_support import (
    Pipelines,
    kill,
    kill_jvm,
    next_json,
    parquet_rows,
    until,
)

RATE = 40
DAY_MS = 24 * 60 * 60 * 1000
COLUMNS = (
    "topic", "partition", "offset", "key", "value", "timestamp", "timestampType", "headers",
)  # fmt: skip


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipelines]:
    with BrokerProcess(tmp_path_factory.mktemp("data"), "topic_defaults.durability=os") as broker:
        yield Pipelines(broker.address)


def publish(pipelines: Pipelines, topic: str, numbers: range, day_ms: int) -> None:
    """Messages of two dates, the one of `day_ms` and the one after it; with and without keys."""
    with penstock.connect_blocking(pipelines.address) as mq:
        if topic not in {each.name for each in mq.admin.list_topics()}:
            mq.admin.create_topic(topic, partitions=2)
        with mq.producer() as producer:
            for number in numbers:
                producer.send(
                    topic,
                    None if number % 50 == 0 else b"value %d" % number,
                    None if number % 3 == 0 else b"key %d" % (number % 11),
                    headers=[("n", b"%d" % number), ("none", None)] if number % 2 else None,
                    timestamp_ms=day_ms + (number % 2) * DAY_MS + number,
                )


def archived(folder: Path) -> list[dict[str, object]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in parquet_rows(folder, COLUMNS)]


def published(pipelines: Pipelines, *topics: str) -> list[dict[str, object]]:
    rows: list[tuple[object, ...]] = []
    for topic in topics:
        rows += [
            (
                topic,
                message.partition,
                message.offset,
                message.key,
                message.value,
                datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=message.timestamp_ms),
                0,
                [{"key": name, "value": value} for name, value in message.headers] or None,
            )
            for message in pipelines.messages(topic)
        ]
    return [dict(zip(COLUMNS, row, strict=True)) for row in sorted(rows, key=repr)]


def test_a_topic_goes_to_files_and_back(pipelines: Pipelines, tmp_path: Path) -> None:
    yesterday_ms = (int(time.time() * 1000) // DAY_MS - 2) * DAY_MS
    publish(pipelines, "sold", range(300), yesterday_ms)
    folder = tmp_path / "archive"
    pipelines.run("archive", "sold", "--to", str(folder), "--once")
    expected = published(pipelines, "sold")
    assert archived(folder) == expected
    _replay_all(pipelines, folder, expected, "sold", "sold-again")


@pytest.mark.soak
def test_archive_killed_restarted_merged_and_replayed(pipelines: Pipelines, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    yesterday_ms = (int(time.time() * 1000) // DAY_MS - 2) * DAY_MS
    publish(pipelines, "orders", range(2000), yesterday_ms)
    publish(pipelines, "payments", range(100), yesterday_ms)
    archive = ("archive", "orders", "payments", "--to", str(folder))

    # A topic may be added later.
    first = pipelines.start("archive", "orders", "--to", str(folder), "--every", "1s", "--json")
    next_json(first.stdout)
    publish(pipelines, "orders", range(2000, 3000), yesterday_ms)
    # Killed while the second batch is staged, decided, or moved: whichever it comes to.
    until(lambda: (tmp_path / "_archive.staging").exists(), first)
    kill(first)
    seen = archived(folder)
    assert len({(row["topic"], row["partition"], row["offset"]) for row in seen}) == len(seen)

    publish(pipelines, "orders", range(3000, 3500), yesterday_ms)
    output, _ = pipelines.run(*archive, "--once", "--json")
    told = [json.loads(line) for line in output.splitlines()]
    assert {each["query"] for each in told} == {"orders", "payments"}
    assert {each["lag"] for each in told} == {0}
    expected = published(pipelines, "orders", "payments")
    assert archived(folder) == expected
    days = sorted((folder / "topic=orders").iterdir())
    assert [day.name[:7] for day in days] == ["date=20"] * 2
    assert [len(list(day.glob("*.parquet"))) for day in days] == [1, 1], "closed dates are merged"
    assert not (tmp_path / "_archive.staging").exists()

    _replay_all(pipelines, folder, expected, "orders", "again")
    _replay_some(pipelines, tmp_path)


def _replay_all(
    pipelines: Pipelines, folder: Path, expected: list[dict[str, object]], topic: str, to: str
) -> None:
    """A topic of the archive to another: the same keys, values, headers, times and partitions."""
    with penstock.connect_blocking(pipelines.address) as mq:
        mq.admin.create_topic(to, partitions=2)
    where = f"topic = '{topic}' AND offset < 10000"
    output, _ = pipelines.run(
        "replay", "--from", str(folder), "--to", to, "--keep-partition", "--where", where,
        "--json",
    )  # fmt: skip
    rows = [row for row in expected if row["topic"] == topic]
    result = json.loads(output)
    assert (result["messages"], result["complete"]) == (len(rows), True)
    same = ("partition", "key", "value", "timestamp", "headers")
    again = published(pipelines, to)
    assert sorted(repr([row[name] for name in same]) for row in again) == sorted(
        repr([row[name] for name in same]) for row in rows
    )
    for partition in (0, 1):
        times = [
            row["timestamp"] for row in sorted(again, key=_place) if row["partition"] == partition
        ]
        assert times == sorted(times), "in the order of time"  # type: ignore[type-var]


def _place(row: dict[str, object]) -> int:
    return int(str(row["offset"]))


def _growth(address: str, topic: str, process: subprocess.Popen[str]) -> list[tuple[float, int]]:
    """When a topic had how many messages, until the process ends."""
    seen: list[tuple[float, int]] = []
    with penstock.connect_blocking(address) as mq:
        while process.poll() is None:
            count = sum(each.high_watermark for each in mq.admin.describe_topic(topic).partitions)
            if not seen or seen[-1][1] != count:
                seen.append((time.monotonic(), count))
            time.sleep(0.02)
    return seen


def _replay_some(pipelines: Pipelines, folder: Path) -> None:
    """A part of a topic, at a rate, with other times; killed, and gone on with."""
    now_ms = int(time.time() * 1000)
    replay = (
        "replay", "--from", "again", "--to", "slow", "--where", "key IS NOT NULL",
        "--offsets", "0:0-600", "--rate", f"{RATE}/s", "--shift-time", "now",
        "--checkpoint", str(folder / "replay"),
    )  # fmt: skip
    rows = [
        message
        for message in pipelines.messages("again")
        if message.partition == 0 and message.offset < 600 and message.key is not None
    ]
    first = pipelines.start(*replay)
    until(lambda: (folder / "replay" / "written.json").exists(), first)
    ended = kill_jvm(first)
    assert ended.startswith("error: replay: Spark's JVM was ended by SIGKILL")
    assert len(ended.splitlines()) == 1
    before = len(pipelines.messages("slow"))
    assert 0 < before < len(rows)
    second = pipelines.start(*replay, "--json")
    growth = _growth(pipelines.address, "slow", second)
    output, error = second.communicate()
    assert second.returncode == 0, error
    assert json.loads(output)["messages"] == len(rows)
    (first_s, at_first), (last_s, at_last) = growth[1], growth[-1]
    assert last_s - first_s > (at_last - at_first) / RATE / 2, growth
    slow = pipelines.messages("slow")
    assert sorted(repr((m.key, m.value)) for m in slow) == sorted(
        repr((m.key, m.value)) for m in rows
    )
    times = sorted(message.timestamp_ms for message in slow)
    assert now_ms <= times[0]
    original = sorted(message.timestamp_ms for message in rows)
    assert [each - times[0] for each in times] == [each - original[0] for each in original]
    other = pipelines.refusal(*replay, "--keep-partition")
    assert "is of another replay (--keep-partition differ)" in other


def test_mistakes_of_the_built_in_ones_are_one_sentence(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    refusals = [
        (("archive", "a b", "--to", str(tmp_path / "x")), "a b"),
        (("archive", "a", "--to", str(tmp_path / "x"), "--every", "often"), "length of time"),
        (("archive", "a", "--to", "/proc/x"), "cannot be written to"),
        (("replay", "--from", "./none", "--to", "b"), "There is no folder ./none"),
        (("replay", "--from", "b", "--to", "b"), "to itself"),
        (("replay", "--from", "a", "--to", "b", "--rate", "fast"), "no rate"),
    ]
    for words, expected in refusals:
        assert expected in pipelines.refusal(*words)
    missing = pipelines.refusal("archive", "missing", "--to", str(tmp_path / "y"), "--once")
    assert "Topic missing does not exist" in missing


def test_two_archives_do_not_write_to_one_folder(pipelines: Pipelines, tmp_path: Path) -> None:
    from penstock.spark.pipeline.tables.table import ParquetTable

    with ParquetTable(str(tmp_path / "held")):
        told = pipelines.refusal("archive", "a", "--to", str(tmp_path / "held"))
    assert "Another process writes to" in told
