"""`penstock demo`: a broker is killed in the middle of its work, and nothing acknowledged is lost.

A real broker in a process of its own, a producer and a consumer here. The broker is ended by
SIGKILL half way and started again on the same folder and port; neither the producer nor the
consumer is told. Then everything is read again and compared with the acknowledgements (`proof`),
and where there is Spark the orders become totals and a report (`pipeline`).
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.demo import pipeline as demo_pipeline
from penstock.cli.demo.broker_process import BrokerProcess
from penstock.cli.demo.proof import Found, Place, Verdict, amount_of, key_of, prove, value_of
from penstock.cli.output import FAILED, progress, say, show_json, show_table
from penstock.cli.runtime import Json, connected, run

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.producing.receipts import Receipt

_TOPIC: Final = "orders"
_PARTITIONS: Final = 4
# The producer sends in bursts, and runs at most two of them ahead of the acknowledgements.
_BURSTS: Final = 20
# A consumer that has heard nothing for this long will not: messages are missing.
_SILENCE_SECONDS_MAX: Final = 5.0

# Called with a sign and a sentence as the story goes on.
Tell = Callable[[str, str], None]


@dataclass(slots=True)
class _Ledger:
    """What was sent and what was acknowledged so far, by message number, and the pauses."""

    sent: int = 0
    acknowledged: dict[int, Place] = field(default_factory=dict)
    failed: int = 0
    longest_pause_s: float = 0.0
    advance: Callable[[float, str], None] = lambda _done, _text: None
    _last_s: float = field(default_factory=time.monotonic)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, number: int, future: asyncio.Future[Receipt]) -> None:
        """An acknowledgement, or a failure, has come."""
        if future.cancelled() or future.exception() is not None:
            self.failed += 1
        else:
            receipt = future.result()
            self.acknowledged[number] = Place(receipt.partition, receipt.offset)
        now_s = time.monotonic()
        self.longest_pause_s = max(self.longest_pause_s, now_s - self._last_s)
        self._last_s = now_s
        self._news.set()

    async def until(self, count: int) -> None:
        """Wait for this many acknowledgements and failures."""
        while len(self.acknowledged) + self.failed < count:
            self._news.clear()
            await self._news.wait()
            self.advance(len(self.acknowledged), f"{len(self.acknowledged):,} acknowledged")


@dataclass(frozen=True, slots=True)
class _Crash:
    """How the broker was killed."""

    acknowledged: int
    under_way: int
    """Sent and not acknowledged at that moment."""
    restart_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Story:
    """What happened, in figures."""

    published: int
    acknowledged: int
    crash: _Crash
    longest_pause_s: float
    publish_s: float
    read_s: float
    live: Verdict
    again: Verdict

    @property
    def holds(self) -> bool:
        complete = self.acknowledged == self.live.found == self.again.found == self.published
        return complete and self.live.holds and self.again.holds


def demo(
    messages: Annotated[
        int, typer.Option(min=1_000, metavar="COUNT", help="How many to publish.")
    ] = 100_000,
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the pipeline and the report are left.")
    ] = Path("penstock-demo"),
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Run the half that needs Spark.")
    ] = True,
    as_json: Json = False,
) -> None:
    """See that nothing acknowledged is lost when a broker is killed.

    Starts a broker in a temporary folder, publishes orders, kills the broker with SIGKILL half
    way, starts it again, and proves that every acknowledged message is there, once and in order.
    Then a pipeline on Spark makes totals of the orders, exactly once, and a report about them.
    Exit code 1 if anything is amiss.

    \b
    Examples:
      penstock demo
      penstock demo --messages 1000000 --no-spark
    """
    # The client says on its log that it lost the broker: here that is the plan.
    logging.getLogger("penstock").setLevel(logging.ERROR)
    missing = demo_pipeline.why_not() if spark else "The half on Spark was left out."
    story, totals = run(_play(messages, folder if missing is None else None, as_json=as_json))
    holds = story.holds and (totals is None or _count_once(totals, messages))
    if as_json:
        show_json({**asdict(story), "totals": totals and asdict(totals), "holds": holds})
    elif totals is None:
        _aloud("●", missing or "")
    else:
        _show_totals(totals, messages)
    if not holds:
        raise typer.Exit(FAILED)


async def _play(
    total: int, spark_folder: Path | None, *, as_json: bool
) -> tuple[_Story, demo_pipeline.Totals | None]:
    """Both halves of the story; the second only with a folder for what Spark leaves."""
    tell = _silently if as_json else _aloud
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        async with BrokerProcess(Path(folder)) as broker, connected(broker.address) as mq:
            tell("●", f"Broker started, process {broker.process_id}, on {broker.address}.")
            await mq.admin.create_topic(_TOPIC, _PARTITIONS)
            tell(
                "●",
                f"Publishing {total:,} messages to {_PARTITIONS} partitions; each is on the disk "
                "before it is acknowledged.",
            )
            ledger = _Ledger()
            try:
                async with asyncio.TaskGroup() as group:
                    live = group.create_task(_read(mq, total))
                    crash = group.create_task(_crash(broker, ledger, total // 2, tell))
                    publish_s = await _publish(mq, ledger, total)
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None  # the others follow from it
            tell("●", f"{len(ledger.acknowledged):,} messages acknowledged.")
            started = time.monotonic()
            async with connected(broker.address) as fresh:
                # Everything that is there, so that a message too many is seen as well.
                partitions = (await fresh.admin.describe_topic(_TOPIC)).partitions
                again = await _read(fresh, sum(each.high_watermark for each in partitions))
            read_s = time.monotonic() - started
            story = _Story(
                published=total,
                acknowledged=len(ledger.acknowledged),
                crash=crash.result(),
                longest_pause_s=ledger.longest_pause_s,
                publish_s=publish_s,
                read_s=read_s,
                live=prove(ledger.acknowledged, live.result()),
                again=prove(ledger.acknowledged, again),
            )
            if not as_json:
                _show(story)
            if spark_folder is None:
                return story, None
            totals = await demo_pipeline.run_pipeline(
                mq, broker.address, _TOPIC, spark_folder, shown=not as_json
            )
            return story, totals


async def _publish(mq: Client, ledger: _Ledger, total: int) -> float:
    """Publish all the messages and see them acknowledged; how many seconds it took."""
    burst = total // _BURSTS
    started = time.monotonic()
    with progress(total) as ledger.advance:
        async with mq.producer() as producer:
            for number in range(total):
                if number % burst == 0:
                    await ledger.until(number - burst)
                future = await producer.submit(_TOPIC, value_of(number), key_of(number))
                future.add_done_callback(partial(ledger.note, number))
                ledger.sent = number + 1
            await ledger.until(total)
    return time.monotonic() - started


async def _crash(broker: BrokerProcess, ledger: _Ledger, count: int, tell: Tell) -> _Crash:
    """Kill the broker after so many acknowledgements, and start it again."""
    await ledger.until(count)
    await broker.kill()
    killed_after = len(ledger.acknowledged)
    under_way = ledger.sent - killed_after
    tell(
        "✗",
        f"Broker killed by SIGKILL after {killed_after:,} acknowledgements, with {under_way:,} "
        "messages under way.",
    )
    started = time.monotonic()
    await broker.start()
    restart_s = time.monotonic() - started
    tell("●", f"Broker started again, process {broker.process_id}, after {restart_s:.2f} s.")
    return _Crash(killed_after, under_way, restart_s)


async def _read(mq: Client, count: int) -> list[Found]:
    """The messages of the topic, until there are this many or no more come."""
    found: list[Found] = []
    async with mq.consumer(_TOPIC) as consumer:
        while len(found) < count:
            messages = await consumer.fetch(timeout_s=_SILENCE_SECONDS_MAX)
            if not messages:
                break
            found += [
                Found(Place(each.partition, each.offset), each.key, each.value) for each in messages
            ]
    return found


def _aloud(sign: str, text: str) -> None:
    say(text, sign=sign, colour={"✗": "red", "✓": "green"}.get(sign, "cyan"))


def _silently(_sign: str, _text: str) -> None:
    pass


def _show(story: _Story) -> None:
    live, again = asdict(story.live), asdict(story.again)
    rows = [
        {
            "messages": name.replace("_", " "),
            "consumed_through_the_crash": live[name],
            "read_again_afterwards": again[name],
        }
        for name in live
    ]
    acknowledged = {
        "messages": "acknowledged",
        "consumed_through_the_crash": story.acknowledged,
        "read_again_afterwards": story.acknowledged,
    }
    figures = [
        {"figure": "broker restarted and recovered", "value": f"{story.crash.restart_s:.2f} s"},
        {
            "figure": "longest pause between two acknowledgements",
            "value": f"{story.longest_pause_s:.2f} s",
        },
        {
            "figure": "published, the pause included",
            "value": f"{story.acknowledged / story.publish_s:,.0f} messages/s",
        },
        {"figure": "read again", "value": f"{story.again.found / story.read_s:,.0f} messages/s"},
    ]
    say()
    show_table([acknowledged, *rows])
    say()
    show_table(figures)
    say()
    if story.holds:
        _aloud("✓", "Every acknowledged message is there, once and in order.")
    else:
        _aloud("✗", "The proof FAILED: see the table.")
    say()


def _show_totals(totals: demo_pipeline.Totals, published: int) -> None:
    say()
    counted = f"{totals.orders:,} orders, totals per minute: {totals.minutes}"
    if _count_once(totals, published):
        _aloud("✓", f"{counted}: Spark counted every order, once.")
    else:
        _aloud("✗", f"{counted}: the totals are WRONG.")
    _aloud("●", f"The report is {totals.report}: open it in a browser.")


def _count_once(totals: demo_pipeline.Totals, published: int) -> bool:
    expected = sum(amount_of(number) for number in range(published))
    return (totals.orders, totals.amount) == (published, expected)
