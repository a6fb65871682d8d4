"""What an editor knows of the package as it is installed: pyright, as in Pylance, in strict mode.

Not mypy, which `make check` runs: it passes over decorators that pyright follows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.runs.readme import blocks, python_program

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 300

TYPICAL = """
import asyncio

import penstock
import penstock.testing


async def handle(message: penstock.Message) -> None:
    print(message.topic, message.offset, (message.value or b"").decode(), message.key, message.tag)
    for name, content in message.headers:
        print(name.upper(), content)
    await message.ack()


def work(message: penstock.Message) -> int:
    message.fail("later")
    return message.attempt + message.partition + message.timestamp_ms


async def main(client: penstock.Client) -> None:
    receipt: penstock.Receipt = await client.publish("orders", b"tea", key=b"alice", delay_s=1.0)
    print(receipt.partition + receipt.offset)
    async with client.producer(compression="zstd") as producer:
        await producer.send("orders", b"tea")
        future = await producer.submit("orders", b"tea")
        print((await future).offset)
        try:
            await producer.flush()
        except penstock.DeliveryFailed as error:
            print(error.retriable, error.failures)
        except (penstock.errors.TimedOut, penstock.errors.UnknownTopic) as error:
            print(error.retriable, error.message)
    async for message in client.subscribe("orders", group="billing"):
        await handle(message)
    async with client.consumer("orders", start="latest") as consumer:
        async for messages in consumer.batches():
            print(messages[0].value)
        for fetched in await consumer.fetch_columns():
            columns: penstock.PartitionColumns = fetched
            print(columns.columns.record_count)
    async for message in client.share("jobs", group="workers"):
        await message.release(delay_s=1.0)
        await message.extend()
        await message.reply(b"done")
    await client.serve(handle, "jobs", group="workers", shared=True, concurrency=8)
    await client.serve(work, "jobs", group="workers")
    print((await client.request("prices", b"EUR", timeout=2.0)).value)
    for topic in await client.admin.list_topics():
        print(topic.name, topic.partition_count)
    for group in await client.groups.describe_all():
        print(group)
    async for letter in client.dead_letters.list("workers"):
        print(letter.reason)


def blocking(address: str) -> None:
    with penstock.connect_blocking(address) as mq, mq.producer() as producer:
        producer.send("orders", b"tea")
        for message in mq.subscribe("orders", group="billing"):
            message.ack()
            print(message.offset)
        for leased in mq.share("jobs", group="workers"):
            leased.reject("never")
        mq.serve(work, "jobs", group="workers", shared=True)


def test_orders(penstock_broker: str) -> None:
    blocking(penstock_broker)


with penstock.testing.broker() as address:
    blocking(address)

session = penstock.spark.session("local[2]")
penstock.spark.register(session)
asyncio.run(main(penstock.connect()))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python files of a wheel, as setuptools picks them, where packages are installed."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-c", "from setuptools import setup; setup()", "--quiet"]
    subprocess.run(
        [*command, "egg_info", "--egg-base", folder, "build_py", "--build-lib", folder / "site"],
        cwd=ROOT,
        check=True,
        timeout=SECONDS_MAX,
    )
    return folder / "site"


def pyright(folder: Path, *arguments: str) -> dict[str, object]:
    run = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", *arguments],
        cwd=folder,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert run.stdout.startswith("{"), run.stdout + run.stderr
    said: dict[str, object] = json.loads(run.stdout)
    return said


def test_what_users_write_has_no_error_in_strict_mode(site: Path, tmp_path: Path) -> None:
    """R-OPS-7: what `import penstock` exports is typed, README's programs and examples too."""
    programs = {"typical.py": TYPICAL}
    for number, block in enumerate(blocks("python")):
        programs[f"readme_{number}.py"] = python_program(block)
    programs |= {path.name: path.read_text() for path in (ROOT / "examples").glob("*.py")}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
    settings = {
        "include": sorted(programs),
        "extraPaths": [str(site)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "reportUnusedVariable": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    said = pyright(tmp_path, "--pythonpath", sys.executable)
    found = said["generalDiagnostics"]
    assert isinstance(found, list)
    lines = [
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in found
    ]
    assert not lines, "\n".join(lines)
