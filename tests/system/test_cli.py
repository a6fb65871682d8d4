"""The commands that talk to a broker, by the real `penstock`: results, errors, pipes, codes."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

PENSTOCK = str(Path(sys.executable).with_name("penstock"))
SECONDS_MAX = 60
ESCAPE = b"\x1b"


class Commands:
    """`penstock` against one broker."""

    def __init__(self, address: str) -> None:
        self.environment = {
            **{name: value for name, value in os.environ.items() if name[:9] != "PENSTOCK_"},
            "PENSTOCK_BOOTSTRAP": address,
        }

    def run(self, *words: str, given: bytes = b"", code: int = 0) -> tuple[bytes, str]:
        """What it wrote to stdout and stderr; it must end with this exit code."""
        run = subprocess.run(
            [PENSTOCK, *words],
            input=given,
            capture_output=True,
            timeout=SECONDS_MAX,
            env=self.environment,
            check=False,
        )
        error = run.stderr.decode()
        assert run.returncode == code, (words, run.returncode, error)
        assert "Traceback" not in error
        assert ESCAPE not in run.stdout + run.stderr, "no colour in a pipe"
        return run.stdout, error

    def rows(self, *words: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.run(*words, "--json")[0].splitlines()]

    def value(self, *words: str) -> object:
        return json.loads(self.run(*words, "--json")[0])

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [PENSTOCK, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        )

    def produce(self, topic: str, values: Sequence[str], *flags: str) -> None:
        lines = "".join(f"{value}\n" for value in values).encode()
        _, error = self.run("produce", topic, *flags, given=lines)
        assert f"{len(values)} message" in error


@pytest.fixture
def commands(penstock_broker: str) -> Commands:
    return Commands(penstock_broker)


# --- topics ------------------------------------------------------------------------------------


def test_a_topic_from_creation_to_deletion(commands: Commands, penstock_topic: str) -> None:
    """R-CORE-1, R-CORE-4."""
    topic = penstock_topic
    commands.run("topics", "create", topic, "--partitions", "3", "--set", "retention_ms=1h")
    assert topic in commands.run("topics", "list")[0].decode()
    listed = commands.value("topics", "list")
    assert isinstance(listed, list)
    assert {"name": topic, "partitions": 3}.items() <= next(
        row for row in listed if row["name"] == topic
    ).items()

    commands.run("topics", "alter", topic, "--set", "segment_bytes=1MiB", "--partitions", "4")
    commands.run("topics", "alter", topic, "--reset", "retention_ms")
    described = commands.value("topics", "describe", topic)
    assert isinstance(described, dict)
    assert len(described["partitions"]) == 4
    assert described["config"]["segment_bytes"] == "1048576"
    assert described["changed"] == ["segment_bytes"]
    assert "segment_bytes" in commands.run("topics", "describe", topic)[0].decode()

    commands.run("topics", "delete", topic, "--yes")
    assert topic not in commands.run("topics", "list")[0].decode()
    assert topic in commands.run("topics", "describe", topic, code=1)[1]


def test_what_the_broker_refuses_is_one_sentence(commands: Commands, penstock_topic: str) -> None:
    """R-CORE-4: the eleventh partition is refused with a clear error."""
    commands.run("topics", "create", penstock_topic)
    refusals = [
        (("topics", "create", penstock_topic), "exists already"),
        (("topics", "create", f"{penstock_topic}-11", "--partitions", "11"), "10"),
        (("topics", "create", "no/topic"), "no/topic"),
        (("topics", "create", "t", "--set", "retention=1"), "retention_ms"),
        (("topics", "delete", f"{penstock_topic}-none", "--yes"), "There is no topic"),
        (("topics", "alter", penstock_topic, "--set", "durability=maybe"), "fsync or os"),
        (("topics", "alter", penstock_topic), "--set"),
        (("offsets", "show", f"{penstock_topic}-none"), "There is no topic"),
        (("consume", f"{penstock_topic}-none", "--until-end"), "There is no topic"),
    ]
    for words, expected in refusals:
        output, error = commands.run(*words, code=1)
        assert output == b""
        assert expected in error
        assert error.startswith("error: ")
        assert error.count("\n") == 1, error


def test_a_deletion_asks_first_and_takes_no_for_an_answer(
    commands: Commands, penstock_topic: str
) -> None:
    commands.run("topics", "create", penstock_topic)
    commands.run("topics", "delete", penstock_topic, given=b"n\n", code=1)
    assert penstock_topic in commands.run("topics", "list")[0].decode()
    commands.run("topics", "delete", penstock_topic, given=b"y\n")
    assert penstock_topic not in commands.run("topics", "list")[0].decode()


# --- produce and consume -----------------------------------------------------------------------


def test_lines_go_in_and_come_out_as_the_same_bytes(
    commands: Commands, penstock_topic: str, tmp_path: Path
) -> None:
    lines = b"plain\n\ntab\there\r\n\xff\xfe\x00binary\nlast without newline"
    file = tmp_path / "lines"
    file.write_bytes(lines)
    for flags, given in ((("--file", str(file)), b""), ((), lines)):
        output, error = commands.run("produce", penstock_topic, *flags, given=given)
        assert output == b""
        assert "5 messages acknowledged" in error
    output, _ = commands.run("consume", penstock_topic, "--until-end")
    assert output == 2 * (lines + b"\n")


def test_more_than_a_pipe_holds_comes_out_whole(commands: Commands, penstock_topic: str) -> None:
    values = [f"message {number} of many" for number in range(100_000)]
    commands.produce(penstock_topic, values)
    output, _ = commands.run("consume", penstock_topic, "--until-end")
    assert output.decode().splitlines() == values


def test_keys_headers_and_all_the_rest_as_json(commands: Commands, penstock_topic: str) -> None:
    """R-CORE-2: the same key always goes to the same partition."""
    commands.run("topics", "create", penstock_topic, "--partitions", "4")
    flags = ("--key-separator", ":", "--header", "source=test", "--compression", "zstd")
    commands.produce(penstock_topic, ["alice:1", "bob:2", "alice:3:4"], *flags)
    rows = commands.rows("consume", penstock_topic, "--until-end")
    by_key: dict[object, list[dict[str, object]]] = {}
    for row in rows:
        by_key.setdefault(row["key"], []).append(row)
    assert [row["value"] for row in by_key["alice"]] == ["1", "3:4"]
    assert len({row["partition"] for row in by_key["alice"]}) == 1
    assert [row["value"] for row in by_key["bob"]] == ["2"]
    assert rows[0]["headers"] == [{"name": "source", "value": "test"}]
    assert {"topic", "partition", "offset", "timestamp_ms", "time"} <= rows[0].keys()
    output, _ = commands.run("consume", penstock_topic, "--until-end", "--show-key")
    assert b"alice\t3:4\n" in output


def test_a_line_without_its_key_is_an_error_that_names_the_line(
    commands: Commands, penstock_topic: str
) -> None:
    flags = ("--key-separator", ":")
    _, error = commands.run("produce", penstock_topic, *flags, given=b"a:1\nb:2\nc3\n", code=1)
    assert "line 3" in error
    assert commands.run("consume", penstock_topic, "--until-end")[0] == b"1\n2\n"


def test_where_to_start_and_when_to_end(commands: Commands, penstock_topic: str) -> None:
    """R-DEL-10: start at any offset, and seek by time."""
    commands.produce(penstock_topic, [str(number) for number in range(10)])
    time.sleep(0.3)
    between_ms = int(time.time() * 1000) - 150
    commands.produce(penstock_topic, [str(number) for number in range(10, 20)])
    consume = ("consume", penstock_topic, "--until-end")
    assert commands.run(*consume, "--max", "3")[0] == b"0\n1\n2\n"
    assert commands.run(*consume, "--from", "17")[0] == b"17\n18\n19\n"
    assert commands.run(*consume, "--from", "end")[0] == b""
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(between_ms / 1000))
    precise = f"{moment}.{between_ms % 1000:03}+00:00"
    assert commands.run(*consume, "--from", precise, "--max", "1")[0] == b"10\n"
    assert commands.run(*consume, "--from", "1h-ago", "--max", "1")[0] == b"0\n"
    assert commands.run("consume", penstock_topic, "--timeout", "300ms")[0].count(b"\n") == 20
    _, error = commands.run("consume", penstock_topic, "--max", "21", "--timeout", "300ms", code=1)
    assert "20 of 21" in error
    assert "10m-ago" in commands.run(*consume, "--from", "breakfast", code=1)[1]
    assert "0 to 20" in commands.run(*consume, "--from", "21", code=1)[1]


def test_one_partition(commands: Commands, penstock_topic: str) -> None:
    commands.run("topics", "create", penstock_topic, "--partitions", "3")
    commands.produce(penstock_topic, ["a", "b", "c"], "--partition", "2")
    consume = ("consume", penstock_topic, "--until-end")
    assert commands.run(*consume, "--partition", "2")[0] == b"a\nb\nc\n"
    assert commands.run(*consume, "--partition", "0")[0] == b""
    assert "partition 3" in commands.run(*consume, "--partition", "3", code=1)[1]


def test_a_group_goes_on_where_it_stopped(commands: Commands, penstock_topic: str) -> None:
    """R-DEL-10: offsets are kept per group and partition by the broker."""
    group = f"group-of-{penstock_topic}"
    commands.produce(penstock_topic, [str(number) for number in range(6)])
    consume = ("consume", penstock_topic, "--group", group)
    assert commands.run(*consume, "--max", "4")[0] == b"0\n1\n2\n3\n"
    assert commands.run(*consume, "--until-end")[0] == b"4\n5\n"
    assert commands.run(*consume, "--until-end")[0] == b""
    show = ("offsets", "show", penstock_topic, "--group", group)
    rows = commands.value(*show)
    assert isinstance(rows, list)
    assert [(row["committed"], row["lag"]) for row in rows] == [(6, 0)]
    commands.run("offsets", "commit", penstock_topic, "--group", group, "--to", "2")
    rows = commands.value(*show)
    assert isinstance(rows, list)
    assert [(row["start"], row["end"], row["lag"]) for row in rows] == [(0, 6, 4)]
    assert commands.run(*consume, "--until-end")[0] == b"2\n3\n4\n5\n"
    assert group in commands.run("offsets", "groups")[0].decode().split()


def test_messages_come_as_they_are_published(commands: Commands, penstock_topic: str) -> None:
    commands.run("topics", "create", penstock_topic)
    with commands.start("consume", penstock_topic) as consumer:
        assert consumer.stdout is not None
        for value in (b"one\n", b"two\n"):
            commands.run("produce", penstock_topic, given=value)
            assert consumer.stdout.readline() == value
        consumer.send_signal(signal.SIGINT)
        _, error = consumer.communicate(timeout=SECONDS_MAX)
    assert (consumer.returncode, error) == (0, b""), "Ctrl-C is a clean end"


def test_a_reader_that_has_enough_ends_the_consumer(
    commands: Commands, penstock_topic: str
) -> None:
    commands.produce(penstock_topic, ["x" * 100] * 5000)
    with commands.start("consume", penstock_topic) as consumer:
        assert consumer.stdout is not None
        consumer.stdout.readline()
        consumer.stdout.close()
        assert consumer.wait(SECONDS_MAX) == 0
        assert consumer.stderr is not None
        assert consumer.stderr.read() == b""


def test_a_line_typed_is_published_at_once(commands: Commands, penstock_topic: str) -> None:
    commands.run("topics", "create", penstock_topic)
    with commands.start("produce", penstock_topic) as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"one\n")
        producer.stdin.flush()
        assert commands.run("consume", penstock_topic, "--max", "1")[0] == b"one\n"
        producer.send_signal(signal.SIGINT)
        assert producer.wait(SECONDS_MAX) == 130, "ended by Ctrl-C, not by the end of its input"
        assert producer.stderr is not None
        assert b"1 message acknowledged" in producer.stderr.read()


# --- the rest ----------------------------------------------------------------------------------


def test_no_broker_is_one_sentence() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        commands = Commands(address)
        for words in (
            ("topics", "list"),
            ("produce", "orders"),
            ("consume", "orders"),
            ("offsets", "show"),
            ("bench", "--bootstrap", address),
        ):
            _, error = commands.run(*words, given=b"x\n", code=1)
            expected = f"No broker answers at {address}: start one with `penstock up`."
            assert error == f"error: {expected}\n"


def test_a_terminal_gets_colour_and_a_pipe_does_not(
    commands: Commands, penstock_topic: str
) -> None:
    commands.run("topics", "create", penstock_topic)
    reading, writing = pty.openpty()
    subprocess.run(
        [PENSTOCK, "topics", "list"],
        stdout=writing,
        env={**commands.environment, "TERM": "xterm-256color"},
        timeout=SECONDS_MAX,
        check=True,
    )
    os.close(writing)
    assert ESCAPE in os.read(reading, 65536)
    os.close(reading)


def test_a_quick_benchmark_of_a_running_broker(commands: Commands, penstock_broker: str) -> None:
    flags = ("--bootstrap", penstock_broker, "--messages", "2000", "--round-trips", "20")
    figures = commands.value("bench", *flags)
    assert isinstance(figures, dict)
    for name in ("produce_messages_per_s", "consume_messages_per_s", "round_trip_p50_ms"):
        assert figures[name] > 0
    assert "round trip p99" in commands.run("bench", *flags)[0].decode()
