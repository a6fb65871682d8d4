"""`penstock pipeline` as a person runs it, against a broker: run, watched, ended, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

import pyarrow.dataset as ds

import penstock
from penstock import Message
from tests.system.spark.command_main import END
from tests.system.spark.drivers import session_members

PENSTOCK = str(Path(sys.executable).with_name("penstock"))
PATIENCE_S = 300
NAMES_OF_OURS = ("PENSTOCK_", "SPARK_", "PYSPARK_")
JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"


class Commands:
    """The process in which commands run that need none of their own."""

    def __init__(self) -> None:
        with tempfile.NamedTemporaryFile("w") as errors:
            self._errors = Path(errors.name).open()  # noqa: SIM115 - as long as the process
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.system.spark.command_main"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], *, is_interrupted: bool = False
    ) -> tuple[int, str, str]:
        """Its exit code, and what it wrote to its outputs. Interrupted: by Ctrl-C, when it has
        written something."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = json.dumps({"words": words, "environment": environment})
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        impatient = threading.Timer(PATIENCE_S, self._process.kill)
        impatient.start()
        output = ""
        while not (line := self._process.stdout.readline()).startswith(END):
            assert line, self._errors.read()
            if is_interrupted and not output:
                self._process.send_signal(signal.SIGINT)
            output += line
        impatient.cancel()
        return int(line.removeprefix(END)), output, self._errors.read()


@cache
def commands() -> Commands:
    """Started by the first test that asks; it ends with this process, when its input does."""
    return Commands()


class Pipelines:
    """The command, with its broker in the environment."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(NAMES_OF_OURS) or name == JAVA_OPTIONS
            },
            "PENSTOCK_BOOTSTRAP": address,
            "PENSTOCK_SPARK_MASTER": "local[2]",
        }

    def run(self, *words: str, code: int = 0, **environment: str) -> tuple[str, str]:
        """What it wrote to its outputs; it must end with this exit code and no traceback."""
        whole = {**self.environment, **environment}
        ended, output, error = commands().run(["pipeline", *words], whole)
        assert ended == code, (words, ended, output, error)
        _check_words(error)
        return output, error

    def interrupt(self, *words: str) -> None:
        """Run it until it has written something, and end it by Ctrl-C, with which it succeeds."""
        ran = commands().run(["pipeline", *words], self.environment, is_interrupted=True)
        assert ran[0] == 0, ran
        _check_words(ran[2])

    def run_alone(self, *words: str, **environment: str) -> tuple[str, str]:
        """The same, as a process of its own, which must succeed."""
        run = subprocess.run(
            [PENSTOCK, "pipeline", *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={**self.environment, **environment},
            check=False,
        )
        assert run.returncode == 0, (words, run.returncode, run.stdout, run.stderr)
        _check_words(run.stderr)
        return run.stdout, run.stderr

    def refusal(self, *words: str, **environment: str) -> str:
        """The one sentence with which it ends."""
        output, error = self.run(*words, code=1, **environment)
        lines = error.splitlines()
        assert lines[-1].startswith("error: "), error
        assert output == ""
        return lines[-1].removeprefix("error: ")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """In a session of its own, so that all of it can be killed."""
        return subprocess.Popen(
            [PENSTOCK, "pipeline", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            start_new_session=True,
        )

    def publish(self, topic: str, rows: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        with penstock.connect_blocking(self.address) as mq, mq.producer() as producer:
            for key, value in rows:
                producer.send(topic, value, key)

    def messages(self, topic: str) -> list[Message]:
        """All that is there, by partition and offset."""
        found: list[Message] = []
        with penstock.connect_blocking(self.address) as mq:
            ends = {
                each.partition: each.high_watermark
                for each in mq.admin.describe_topic(topic).partitions
            }
            with mq.consumer(topic, start="earliest") as consumer:
                while len(found) < sum(ends.values()):
                    found += consumer.fetch(timeout_s=10)
        return sorted(found, key=lambda message: (message.partition, message.offset))


def _check_words(error: str) -> None:
    assert "Traceback" not in error, error
    assert "\tat org.apache" not in error, error
    assert "WARN" not in error, error


def next_json(stream: IO[str] | None) -> dict[str, object]:
    """The next line of a command that writes JSON."""
    assert stream is not None
    line = stream.readline()
    assert line, "it ended"
    parsed: dict[str, object] = json.loads(line)
    return parsed


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL to the command, its JVM and its Python workers, at once."""
    while members := session_members(process.pid):
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.poll()
        time.sleep(0.01)
    process.communicate()


def kill_jvm(process: subprocess.Popen[str]) -> str:
    """SIGKILL to the command's JVM alone, as by a system that is out of memory. What the command
    makes of it, as its last words."""
    for pid in session_members(process.pid):
        if Path(f"/proc/{pid}/comm").read_text() == "java\n":
            os.kill(pid, signal.SIGKILL)
    _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, error
    _check_words(error)
    return error


def until(is_true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def parquet_rows(folder: Path, columns: Sequence[str]) -> list[tuple[object, ...]]:
    """As a reader that knows nothing of us."""
    read = ds.dataset(folder, format="parquet", partitioning="hive").to_table(columns=list(columns))
    return sorted(zip(*(read[name].to_pylist() for name in columns), strict=True), key=repr)
