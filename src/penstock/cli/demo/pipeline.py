"""The second half of `penstock demo`: the orders become totals by a Spark pipeline, and a report.

It runs the commands that a person would type, on files that stay in the demonstration's folder to
be looked at. The totals are read back from their topic and compared with what was published.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cli.output import say
from penstock.model.errors import InvalidConfig, PenstockError, UnavailableError

if TYPE_CHECKING:
    from penstock.client.client import Client

_TOTALS: Final = "order-totals"
_SILENCE_SECONDS_MAX: Final = 5.0
_PIPELINE: Final = """\
# Orders become totals per minute, exactly once. Run it again: it goes on where it stopped.
[pipeline]
name = "order-totals"
trigger = "available-now"
checkpoint = "checkpoint"

[spark]
sql.shuffle.partitions = 2

[sources.orders]
topic = "{topic}"
bootstrap = "{bootstrap}"
value = {{ format = "json", schema = "order BIGINT, amount BIGINT" }}

[[steps]]
name = "totals"
sql = \"\"\"
    SELECT window(timestamp, '1 minute').start AS minute, count(*) AS orders, sum(amount) AS amount
    FROM orders
    GROUP BY window(timestamp, '1 minute')
\"\"\"

[sinks.totals]
from = "totals"
topic = "{totals}"
bootstrap = "{bootstrap}"
value = {{ format = "json" }}
key = "CAST(minute AS STRING)"
output_mode = "update"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What the pipeline made of the orders, and where the report about them is."""

    minutes: int
    orders: int
    amount: int
    report: str


def why_not() -> str | None:
    """What is missing for this half, in one sentence, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "The pipeline half needs Spark: pip install 'penstock[spark]'."
    from penstock.spark.sessions.java import find_java

    try:
        find_java()
    except PenstockError as error:
        return error.message
    return None


async def run_pipeline(
    mq: Client, bootstrap: str, topic: str, folder: Path, *, shown: bool
) -> Totals:
    """Run the pipeline over the topic's orders and inspect the topic."""
    file = _prepare(folder, topic, bootstrap)
    await _command(["pipeline", "run", str(file)], shown)
    minutes = await _read_totals(mq)
    report = folder / "report"
    inspection = ["pipeline", "inspect", topic, "--bootstrap", bootstrap, "--report", str(report)]
    await _command(inspection, shown)
    return Totals(
        minutes=len(minutes),
        orders=sum(minute["orders"] for minute in minutes),
        amount=sum(minute["amount"] for minute in minutes),
        report=str(report / "report.html"),
    )


def _prepare(folder: Path, topic: str, bootstrap: str) -> Path:
    """The pipeline's file, in a folder without what an earlier demonstration left: its broker is
    gone, so there is nothing to go on with."""
    file = folder / "totals.toml"
    if folder.is_dir() and any(folder.iterdir()) and not file.exists():
        raise InvalidConfig(
            f"The folder {folder} has other things in it: choose another one with --folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in ("checkpoint", "report"):
        shutil.rmtree(folder / leftover, ignore_errors=True)
    file.write_text(_PIPELINE.format(topic=topic, totals=_TOTALS, bootstrap=bootstrap))
    return file


async def _command(arguments: Sequence[str], shown: bool) -> None:
    """Run one of our commands, as a person would. Its output goes where ours goes."""
    if shown:
        say(f"penstock {' '.join(arguments)}", sign="$")
    sys.stdout.flush()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock.cli", *arguments),
        stdout=None if shown else asyncio.subprocess.DEVNULL,
    )
    if await process.wait() != 0:
        raise UnavailableError(f"`penstock {' '.join(arguments[:2])}` failed: see above.")


async def _read_totals(mq: Client) -> list[dict[str, int]]:
    found: list[dict[str, int]] = []
    async with mq.consumer(_TOTALS) as consumer:
        while messages := await consumer.fetch(timeout_s=_SILENCE_SECONDS_MAX):
            found += [json.loads(each.value or b"{}") for each in messages]
            behind = [
                await mq.admin.find_offset(*partition, "latest") - consumer.position(partition)
                for partition in consumer.partitions
            ]
            if not any(behind):
                break
    return found
