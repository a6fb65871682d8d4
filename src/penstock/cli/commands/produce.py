"""`penstock produce`: every line of a file, a pipe or a terminal is published as a message."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from penstock.cli.lines import read_lines
from penstock.cli.output import INTERRUPTED, note, progress, say, show_json
from penstock.cli.quantities import duration_ms, moment_ms
from penstock.cli.runtime import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    run_with_client,
    until_interrupted,
)
from penstock.cli.settings import split_assignment
from penstock.model.errors import InvalidRequest, PenstockError

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.producing.options import MessageOptions
    from penstock.client.producing.producer import Producer


Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal["0", "1", "all"]
Exclusive = Literal["refuse", "fence"]

_ACKS: Final[dict[Acks, Literal[0, 1, "all"]]] = {"0": 0, "1": 1, "all": "all"}
_STDIN: Final = 0

_Ttl = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Do not deliver after this long, as in 60s or 2h."),
]
_Priority = Annotated[
    int | None,
    typer.Option(
        min=0, max=9, metavar="NUMBER", help="0 to 9: shared groups hand out higher ones first."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What to publish where."""

    topic: str
    descriptor: int
    key_separator: bytes
    options: MessageOptions
    compression: Compression
    acks: Acks
    exclusive: Exclusive | None
    delay_ms: int | None
    at_ms: int | None
    ordered: bool

    @property
    def is_delayed(self) -> bool:
        return self.delay_ms is not None or self.at_ms is not None


@dataclass(slots=True)
class _Count:
    sent: int = 0
    failed: int = 0


# --- options: what they are called and how they are explained

_File = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", exists=True, dir_okay=False, help="Read this instead of the input."
    ),
]
_KeySeparator = Annotated[
    str, typer.Option(metavar="TEXT", help="What stands between key and value in a line.")
]
_Header = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Give every message this header; repeatable."),
]
_Tag = Annotated[
    str | None, typer.Option(metavar="WORD", help="Give every message this tag, for filters.")
]
_Partition = Annotated[
    int | None, typer.Option(min=0, metavar="NUMBER", help="Publish to this partition only.")
]
_Compression = Annotated[
    Compression, typer.Option(metavar="NAME", help="none, gzip, snappy, lz4 or zstd.")
]
_WhoAcknowledges = Annotated[
    Acks,
    typer.Option(metavar="WHO", help="Who must have a message: all, 1 (the leader), 0 (none)."),
]
_ExclusiveHow = Annotated[
    Exclusive | None,
    typer.Option(
        metavar="HOW",
        help="Have the topic for this producer alone: refuse (fail if another has it), "
        "fence (take it over).",
    ),
]
_Delay = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Let messages appear after so long, as 5m.", show_default=False
    ),
]
_At = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help="Let them appear then, as 2026-01-31T12:00:00."),
]
_Ordered = Annotated[
    bool, typer.Option("--ordered", help="Delayed ones of the same key stay in order.")
]


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to publish.")],
    *,
    file: _File = None,
    key_separator: _KeySeparator = "",
    header: _Header = None,
    tag: _Tag = None,
    ttl: _Ttl = None,
    priority: _Priority = None,
    partition: _Partition = None,
    compression: _Compression = "none",
    acks: _WhoAcknowledges = "all",
    exclusive: _ExclusiveHow = None,
    delay: _Delay = None,
    at: _At = None,
    ordered: _Ordered = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Publish lines as messages.

    Each line of the input is one message, without its newline; an empty line is an empty message.
    Ends with exit code 0 when all of them were acknowledged, and says how many on stderr. Of
    delayed ones the ids are printed, by which `penstock delayed cancel` knows them.

    \b
    Examples:
      echo hello | penstock produce greetings
      penstock produce orders --key-separator : < orders.txt
      penstock produce events --file events.jsonl --compression zstd --header source=import
      penstock produce ledger --exclusive fence < entries.txt
      echo remind me | penstock produce reminders --delay 5m
      penstock produce jobs --ttl 60s --priority 9 < urgent.txt
    """
    descriptor = os.open(file, os.O_RDONLY) if file is not None else _STDIN
    job = _Job(
        topic=topic,
        descriptor=descriptor,
        key_separator=key_separator.encode(),
        options={
            "headers": [
                (name, value.encode()) for name, value in map(split_assignment, header or [])
            ],
            "tag": tag,
            "ttl_s": duration_ms(ttl) / 1000 if ttl is not None else None,
            "priority": priority,
            "partition": partition,
        },
        compression=compression,
        acks=acks,
        exclusive=exclusive,
        delay_ms=None if delay is None else duration_ms(delay),
        at_ms=None if at is None else moment_ms(at, time.time_ns() // 1_000_000),
        ordered=ordered,
    )
    _check(job)
    started = time.monotonic()
    count = _Count()
    try:
        finished = run_with_client(bootstrap, lambda mq: _publish(mq, job, count))
    except PenstockError:
        if count.sent:
            _report(count, time.monotonic() - started, job, as_json=as_json)
        raise
    _report(count, time.monotonic() - started, job, as_json=as_json)
    if not finished:
        raise typer.Exit(INTERRUPTED)


def _check(job: _Job) -> None:
    if job.delay_ms is not None and job.at_ms is not None:
        raise InvalidRequest("Say either --delay or --at, not both.")
    if job.ordered and not job.is_delayed:
        raise InvalidRequest("--ordered is for delayed messages: give --delay or --at as well.")
    if job.is_delayed and (job.acks != "all" or job.compression != "none" or job.exclusive):
        raise InvalidRequest(
            "--acks, --compression and --exclusive are not for delayed messages: the broker keeps "
            "them durably and publishes them itself. Leave them away."
        )


async def _publish(mq: Client, job: _Job, count: _Count) -> bool:
    from penstock.client.errors import DeliveryFailed

    if job.is_delayed:
        return await until_interrupted(_delay_lines(mq, job, count))
    try:
        async with mq.producer(
            acks=_ACKS[job.acks],
            compression=job.compression,
            exclusive=job.exclusive,
        ) as producer:
            return await until_interrupted(_send_lines(producer, job, count))
    except DeliveryFailed as error:
        count.failed = sum(failure.message_count for failure in error.failures)
        raise


async def _send_lines(producer: Producer, job: _Job, count: _Count) -> None:
    size = os.fstat(job.descriptor).st_size or None
    read_bytes = 0
    # A bar over a terminal on which somebody types would be in the way.
    with progress(size, shown=not os.isatty(job.descriptor)) as advance:
        async for lines in read_lines(job.descriptor):
            for line in lines:
                key, value = _split(line, job.key_separator, count.sent + 1)
                await producer.send(job.topic, value, key, **job.options)
                count.sent += 1
                read_bytes += len(line) + 1
            advance(read_bytes, f"{count.sent:,} messages")


async def _delay_lines(mq: Client, job: _Job, count: _Count) -> None:
    """Let the lines wait on the broker, some thousand at a time."""
    from datetime import UTC, datetime

    from penstock.client.admin.delayed import DelayedMessage

    due = None if job.at_ms is None else datetime.fromtimestamp(job.at_ms / 1000, UTC)
    delay_s = None if job.delay_ms is None else job.delay_ms / 1000
    async for lines in read_lines(job.descriptor):
        waiting = []
        for number, line in enumerate(lines, count.sent + 1):
            key, value = _split(line, job.key_separator, number)
            waiting.append(DelayedMessage(value, key, delay_s, due, **job.options))
        for receipt in await mq.delayed.publish_many(job.topic, waiting, ordered=job.ordered):
            say(receipt.id)
        count.sent += len(waiting)


def _split(line: bytes, separator: bytes, number: int) -> tuple[bytes | None, bytes]:
    if not separator:
        return None, line
    key, found, value = line.partition(separator)
    if not found:
        raise InvalidRequest(
            f"There is no key separator {separator.decode()!r} in line {number}: "
            "the lines before it were published."
        )
    return key, value


def _report(count: _Count, seconds: float, job: _Job, *, as_json: bool) -> None:
    good = count.sent - count.failed
    done = "sent" if job.acks == "0" else "acknowledged"
    if job.is_delayed:
        done = "delayed"
    if as_json:
        show_json({done: good, "seconds": round(seconds, 3)})
    else:
        note(f"{good} {'message' if good == 1 else 'messages'} {done}")
