"""`penstock inspect` on folders that a real broker wrote: sound, damaged, torn, foreign."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.storage.files.os_files import OsDirectory
from penstock.storage.log.compacted import COMPACTION_JOURNAL
from penstock.testing import broker
from tests.kit.storage.logs import append, flush, make_batch, open_log, thin_out

PENSTOCK = str(Path(sys.executable).with_name("penstock"))
SECONDS_MAX = 20


def run(*words: str, code: int = 0, given: bytes = b"") -> tuple[str, str]:
    ended = subprocess.run(
        [PENSTOCK, *words], input=given, capture_output=True, timeout=SECONDS_MAX, check=False
    )
    error = ended.stderr.decode()
    assert ended.returncode == code, (words, ended.returncode, error)
    assert "Traceback" not in error
    return ended.stdout.decode(), error


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of a broker that was stopped: two topics, the first with two partitions."""
    folder = tmp_path / "data"
    with broker(data=str(folder)) as address:
        bootstrap = ("--bootstrap", address)
        run("topics", "create", "orders", "--partitions", "2", *bootstrap)
        for partition in ("0", "1"):
            lines = b"".join(b"key-%d:value %d\n" % (number, number) for number in range(100))
            flags = ("--partition", partition, "--key-separator", ":")
            run("produce", "orders", *flags, *bootstrap, given=lines)
        run("produce", "binary", *bootstrap, given=b"\x1b[31m\xff\n")
    return folder


def log_of(data: Path, topic: str, partition: int) -> Path:
    (log,) = (data / "topics" / topic / str(partition)).glob("*.log")
    return log


def test_a_sound_folder(data: Path) -> None:
    """R-STO-1: the files alone say what they hold."""
    text, error = run("inspect", str(data))
    assert error == ""
    assert "all sound" in text
    assert "201 records" in text
    findings = json.loads(run("inspect", str(data), "--json")[0])
    logs = {each["path"]: each for each in findings if each["records"]}
    finding = logs[str(log_of(data, "orders", 1))]
    assert (finding["records"], finding["first_offset"], finding["last_offset"]) == (100, 0, 99)
    assert finding["problem"] is None


def test_a_topic_a_partition_and_a_file(data: Path) -> None:
    topic = data / "topics" / "orders"
    assert "200 records" in run("inspect", str(topic))[0]
    assert "100 records" in run("inspect", str(topic / "0"))[0]
    assert "1 files, 100 records" in run("inspect", str(log_of(data, "orders", 0)))[0]


def test_messages_are_shown_without_a_broker(data: Path) -> None:
    log = str(log_of(data, "orders", 1))
    rows = [json.loads(line) for line in run("inspect", log, "--records", "--json")[0].splitlines()]
    assert [row["offset"] for row in rows] == list(range(100))
    first = {name: rows[7][name] for name in ("topic", "partition", "key", "value")}
    assert first == {"topic": "orders", "partition": 1, "key": "key-7", "value": "value 7"}
    lines = run("inspect", log, "--records")[0].splitlines()
    assert lines[7].split("\t")[0::2] == ["7", "key-7"]
    # What is in a message must not steer the terminal of the person who looks at it.
    text, _ = run("inspect", str(log_of(data, "binary", 0)), "--records")
    assert "\x1b" not in text
    assert "\\xff" in text


def test_damage_is_reported_with_file_and_position(data: Path) -> None:
    """A bit flip in a log is found, named, and ends in exit code 1."""
    log = log_of(data, "orders", 0)
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    text, error = run("inspect", str(data), code=1)
    assert "damaged" in text
    assert str(log) in error
    assert "position " in error
    findings = json.loads(run("inspect", str(data), "--json", code=1)[0])
    (finding,) = [each for each in findings if each["path"] == str(log)]
    assert 0 <= finding["position"] <= len(content) // 2
    assert finding["problem"]
    run("inspect", str(log), "--records", code=1)
    run("inspect", str(data / "topics" / "orders" / "1"))


def test_a_torn_end_is_reported_as_torn(data: Path) -> None:
    log = log_of(data, "orders", 0)
    log.write_bytes(log.read_bytes()[:-1])
    _, error = run("inspect", str(log), code=1)
    assert "torn" in error


def test_what_is_no_data_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "notes.txt"):
        _, error = run("inspect", str(path), code=1)
        assert "no file of a broker" in error
        assert error.count("\n") == 1
    run("inspect", str(tmp_path / "missing"), code=2)


def test_gaps_of_a_compacted_partition_are_counted(tmp_path: Path) -> None:
    """Without the mark that the log was compacted, missing offsets are damage."""
    log = open_log(OsDirectory(str(tmp_path)))
    append(log, *[make_batch(b"x" * 300)] * 9)
    flush(log)
    thin_out(log, log.sealed_segments()[:2], lambda header: header.base_offset % 3 == 1)
    log.close()
    assert "sound, 3 gaps" in run("inspect", str(tmp_path))[0]
    (tmp_path / COMPACTION_JOURNAL).unlink()
    _, error = run("inspect", str(tmp_path), code=1)
    assert "position 0: the batch has offset 1, not 0" in error
