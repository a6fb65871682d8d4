"""R-SPK-5: the same pipeline on a Spark cluster, whose Python has no Penstock."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from penstock.spark.sessions.java import java_home
from tests.kit.processes.brokers import BrokerProcess
from tests.system.spark.pipeline_support import JAVA_OPTIONS, Pipelines, parquet_rows

ROWS = 500
PATIENCE_S = 120
PIPELINE = """
[pipeline]
name = "copy"
checkpoint = "checkpoint"

[spark]
cores.max = 2
executor.memory = "512m"
executor.extraJavaOptions = "${SPARK_SUBMIT_OPTS}"
sql.shuffle.partitions = 2

[sources.a]
topic = "a"

[[steps]]
name = "shuffled"
sql = "SELECT /*+ REPARTITION(2, value) */ value FROM a"

[sinks.topic]
from = "shuffled"
topic = "b"

[sinks.files]
from = "a"
parquet = "out"
"""


def bare_python(folder: Path) -> str:
    """A Python with everything that Penstock needs, and without Penstock."""
    venv.create(folder / "python", symlinks=True)
    packages = folder / "packages"
    packages.mkdir()
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    for path in Path(spec.origin).parents[1].iterdir():
        if "penstock" not in path.name and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    (site,) = (folder / "python").glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(f"{packages}\n")
    return str(folder / "python" / "bin" / "python")


@contextmanager
def spark_process(folder: Path, name: str, *words: str) -> Iterator[Path]:
    """A master or a worker, from PySpark's own files; its log."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    environment = {
        **os.environ,
        "JAVA_HOME": java_home(),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / name),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": os.environ[JAVA_OPTIONS],
    }
    log = folder / f"{name}.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:]],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            yield log
        finally:
            process.terminate()
            process.wait()


def await_line(log: Path, pattern: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not re.search(pattern, log.read_text()):
        assert time.monotonic() < deadline_s, log.read_text()
        time.sleep(0.05)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A standalone master with two workers of one core."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    where = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        log = stack.enter_context(
            spark_process(tmp_path, "master", "master.Master", *where, "--port", str(port))
        )
        await_line(log, "New state: ALIVE")
        for number in (1, 2):
            room = ("--cores", "1", "--memory", "600m")
            words = ("worker.Worker", *where, *room, address)
            stack.enter_context(spark_process(tmp_path, f"worker{number}", *words))
        await_line(log, r"(?s)Registering worker.*Registering worker")
        yield address


@pytest.mark.soak
def test_a_pipeline_on_two_workers_whose_python_has_no_penstock(
    master: str, tmp_path: Path
) -> None:
    """The package is sent to them; rows are in the topic and in the files once."""
    (tmp_path / "copy.toml").write_text(PIPELINE)
    python = bare_python(tmp_path)
    with BrokerProcess(tmp_path / "data", "topic_defaults.durability=os") as broker:
        pipelines = Pipelines(broker.address)
        pipelines.publish("a", [(None, b"row %d" % row) for row in range(ROWS)])
        run = ("run", str(tmp_path / "copy.toml"), "--once", "--master", master)
        # Addresses of this machine alone: the test's workers are here.
        settings = ("--set", "spark.driver.host=127.0.0.1")
        _, told = pipelines.run_alone(
            *run, *settings, PYSPARK_PYTHON=python, SPARK_LOCAL_IP="127.0.0.1"
        )
        assert "it was sent to them" in told
        expected = sorted(b"row %d" % row for row in range(ROWS))
        assert sorted(message.value or b"" for message in pipelines.messages("b")) == expected
        assert [row[0] for row in parquet_rows(tmp_path / "out", ["value"])] == expected
