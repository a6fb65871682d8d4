"""What an editor knows of the package as it is installed: pyright, as in Pylance, in strict mode.

Not mypy, which `make check` runs: it passes over decorators that pyright follows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

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


MISTAKEN = """
import penstock
import penstock.testing

mq = penstock.connect("127.0.0.1:9092", client_name="shop")
penstock.connect(request_timeout_ms=1.5)  # float
penstock.connect(client_nme="shop")  # client_nme
mq.producer(linger_ms=1, compression="zstd")
mq.producer(compression="zip")  # zip
mq.producer(linger=1)  # linger
mq.subscribe("orders", group="billing", start=17, tags=["paid"])
mq.subscribe("orders", start=1.5)  # float
mq.consumer("orders", grup="billing")  # grup
mq.share("jobs", group="workers", backoff_ms=None)
mq.share("jobs", group="workers", lease_ms="5")  # lease_ms
mq.share("jobs", group="workers", on_assigned=print)  # on_assigned
mq.serve(print, "jobs", group="workers", shared=True, concurrency=4, lease_ms=5, backoff_ms=None)
mq.serve(print, "jobs", group="workers", concurrency="4")  # concurrency
mq.serve(print, "jobs", group="workers", concurency=4)  # concurency
mq.publish("orders", b"tea", tag="hot", priority=9, delay_s=0.5, headers=[("a", b"b")])
mq.publish("orders", b"tea", priority="high")  # priority
mq.publish("orders", b"tea", timestamp=1)  # timestamp
mq.publish("orders", "tea")  # bytes
mq.producer().send("orders", b"tea", tag=b"hot")  # tag
mq.producer().submit("orders", b"tea", ttl_s="1")  # ttl_s
mq.producer().publish("orders", b"tea", delay_s=1)  # delay_s

blocking = penstock.connect_blocking("127.0.0.1:9092", client_name="shop")
penstock.connect_blocking(client_nme="shop")  # client_nme
blocking.publish("orders", b"tea", tag="hot", priority=9, delay_s=0.5).offset
blocking.publish("orders", b"tea", priority="high")  # priority
blocking.publish("orders", b"tea", timestamp=1)  # timestamp
blocking.producer(compression="zip")  # zip
blocking.producer().publish("orders", b"tea", prioriti=1)  # prioriti
blocking.subscribe("orders", grup="billing")  # grup
blocking.subscribe("orders").fetch(max_messages="1")  # max_messages
blocking.share("jobs", group="workers", lease_ms="5")  # lease_ms
blocking.serve(print, "jobs", group="workers", concurency=4)  # concurency
blocking.admin.create_topic("orders", partitions=3, replicas=1).topic_id
blocking.admin.create_topic("orders", partition=3)  # partition
blocking.admin.list_topics().topic_id  # topic_id
blocking.dead_letters.list("workers", reason="late")
blocking.dead_letters.list("workers", reson="late")  # reson
next(blocking.dead_letters.list("workers")).reson  # reson

penstock.testing.broker(partitions_default=3)
penstock.testing.broker(partition_default=3)  # partition_default
penstock.testing.broker(partitions_default="3")  # partitions_default
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


class Diagnostic(NamedTuple):
    file: str
    line: int
    rule: str
    message: str


# An error at the line itself, and not that what came of it is unknown.
MISTAKES = {"reportArgumentType", "reportAttributeAccessIssue", "reportCallIssue"}


def diagnostics(site: Path, folder: Path, programs: Mapping[str, str]) -> list[Diagnostic]:
    """What pyright says of the programs, in strict mode."""
    for name, text in programs.items():
        (folder / name).write_text(text)
    settings = {
        "include": sorted(programs),
        "extraPaths": [str(site)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "reportUnusedVariable": False,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    said = pyright(folder, "--pythonpath", sys.executable)
    found = said["generalDiagnostics"]
    assert isinstance(found, list)
    return [
        Diagnostic(
            Path(each["file"]).name,
            each["range"]["start"]["line"] + 1,
            each.get("rule", ""),
            each["message"],
        )
        for each in found
    ]


def test_what_users_write_has_no_error_in_strict_mode(site: Path, tmp_path: Path) -> None:
    """R-OPS-7: what `import penstock` exports is typed, README's programs and examples too."""
    programs = {"typical.py": TYPICAL}
    for number, block in enumerate(blocks("python")):
        programs[f"readme_{number}.py"] = python_program(block)
    programs |= {path.name: path.read_text() for path in (ROOT / "examples").glob("*.py")}
    found = diagnostics(site, tmp_path, programs)
    lines = [f"{each.file}:{each.line}: {each.message}" for each in found]
    assert not lines, "\n".join(lines)


def test_settings_and_options_that_there_are_not_are_errors(site: Path, tmp_path: Path) -> None:
    """R-OPS-7: by name and by type, with asyncio and without; and those that there are pass."""
    found = diagnostics(site, tmp_path, {"mistaken.py": MISTAKEN})
    for number, line in enumerate(MISTAKEN.splitlines(), 1):
        told = [each for each in found if each.line == number and each.rule in MISTAKES]
        _, _, mistake = line.partition("  # ")
        assert bool(told) == bool(mistake), (line, told)
        assert not told or mistake in " ".join(each.message for each in told), (line, told)
