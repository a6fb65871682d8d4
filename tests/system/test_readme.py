"""What README.md shows works as it is shown: its blocks are run, out of the file itself.

Only addresses, counts and folders are others. Commands that start clusters, other projects' clients
or one more Spark are run by the tests that are named here, and the block of Spark beside the other
tests with a Spark, by `tests/system/spark/test_readme_stream.py`.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import penstock
from penstock.records import Message
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.processes.up import PENSTOCK, environment
from tests.kit.runs.readme import README, blocks, python_block, replaced

SECONDS_MAX = 60

RUN_ELSEWHERE = {
    "source .venv/bin/activate": "by `make`, which runs this",
    "penstock up": "by the fixture `broker`",
    "penstock up --brokers 3": "tests/system/test_cli_up_brokers.py",
    "penstock cluster move orders --replicas 3": "tests/system/test_cli_cluster.py",
    "penstock cluster status": "tests/system/test_cli_cluster.py",
    "kcat -b 127.0.0.1:9092 -C -t orders -o beginning -e": "tests/system/kafka",
    "kafka-console-consumer.sh --bootstrap-server 127.0.0.1:9092 --topic orders --from-beginning": (
        "tests/system/kafka"
    ),
    "penstock pipeline run totals.toml": "tests/system/spark/test_pipeline_run.py",
    "penstock pipeline archive orders --to archive/": "tests/system/spark/test_pipeline_archive.py",
    "penstock pipeline inspect orders --report report/": "tests/system/spark/test_inspect.py",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "penstock-data") as broker:
        yield broker


def commands() -> list[str]:
    lines = "".join(blocks("console")).splitlines()
    return [line.removeprefix("$ ").partition("  ")[0] for line in lines if line[:2] == "$ "]


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():
            await asyncio.sleep(0.01)


def test_every_block_is_known() -> None:
    """A new one needs a test."""
    languages = re.findall(r"^```(\w+)$", README.read_text(), re.MULTILINE)
    assert set(languages) == {"sh", "console", "python"}
    assert len(blocks("python")) == 5
    assert set(RUN_ELSEWHERE) <= set(commands())


def test_the_targets_of_make_are_there() -> None:
    makefile = (README.parent / "Makefile").read_text()
    for line in "".join(blocks("sh")).splitlines():
        target = line.split()[1]
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_importing_the_package_is_enough() -> None:
    """R-OPS-7: the blocks import `penstock` and say `penstock.spark` and `penstock.testing`."""
    said = "import penstock; penstock.spark.session; penstock.testing.broker"
    subprocess.run([sys.executable, "-c", said], check=True, timeout=SECONDS_MAX)


def test_the_tour(broker: BrokerProcess, tmp_path: Path) -> None:
    """R-CORE-2, R-DEL-3, R-NET-5: its programs, and its commands on what they have left."""
    run_the_program(broker.address)
    asyncio.run(run_the_work_queue(broker.address))
    run_the_kafka_client(broker.address)
    for command in commands():
        if command not in RUN_ELSEWHERE:
            run_command(broker.address, command, tmp_path)


def run_the_program(address: str) -> None:
    program = replaced(python_block("asyncio.run(main())", address), "100_000", "100")
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "0 0\n"
            assert process.stdout.readline() == "b'alice' b'tea'\n"
            while process.stdout.readline() != "None b'99'\n":
                assert process.poll() is None
        finally:
            process.kill()


async def run_the_work_queue(address: str) -> None:
    charged: list[bytes | None] = []

    class Bank:
        async def charge(self, value: bytes | None) -> None:
            charged.append(value)

    async def quote(message: Message) -> None:
        await message.reply(b"1.0832")

    async with penstock.connect(address) as mq:
        await mq.publish("orders", b"tea")
        quoting = asyncio.create_task(mq.serve(quote, "prices", group="quotes", shared=True))
        names: dict[str, Any] = {"mq": mq, "bank": Bank()}
        serving: list[asyncio.Task[None]] = []
        for statement in ast.parse(python_block("mq.serve(charge", address)).body:
            module = ast.Module([statement], type_ignores=[])
            code = compile(module, "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            running = eval(code, names)
            if inspect.iscoroutine(running) and "serve" in ast.unparse(statement):
                serving.append(asyncio.create_task(running))
                await until(lambda: b"tea" in charged)
            elif inspect.iscoroutine(running):
                await running
        assert names["price"].value == b"1.0832"
        for task in (*serving, quoting):
            task.cancel()
        await asyncio.gather(*serving, quoting, return_exceptions=True)


def run_the_kafka_client(address: str) -> None:
    names: dict[str, Any] = {"confluent_kafka": confluent_kafka}
    exec(python_block("confluent_kafka", address), names)
    names["producer"].produce("orders", b"by librdkafka")
    assert names["producer"].flush(SECONDS_MAX) == 0


def run_command(address: str, command: str, folder: Path) -> None:
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=folder,
        env=environment(PATH=f"{Path(PENSTOCK).parent}:/usr/bin:/bin", PENSTOCK_BOOTSTRAP=address),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_broker_inside_a_test(tmp_path: Path) -> None:
    """A fixture that comes with the package, and a context manager."""
    program = tmp_path / "test_block.py"
    program.write_text(f"import penstock\n\n{python_block('def test_billing')}")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout
