"""`penstock consume`: messages to the standard output, one per line.

A reader that closes its end of the pipe and Ctrl-C are ways to say "enough": both end it cleanly.
With a group, a message counts as read when it has been written out; a message that is shared is
settled then.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from penstock.cli.message_json import message_json
from penstock.cli.quantities import duration_ms
from penstock.cli.runtime import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    run_with_client,
    until_interrupted,
)
from penstock.cli.starts import WAYS, choose_partitions, parse_start
from penstock.model.errors import InvalidRequest, TimedOut

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.consuming.consumer import Consumer
    from penstock.client.consuming.settings import ConsumerSettings
    from penstock.client.sharing.consumer import SharedConsumer
    from penstock.client.sharing.settings import SharedConsumerSettings
    from penstock.records import Message

_STDOUT: Final = 1
# How often a silent reader looks whether it is at the end.
_LOOK_S: Final = 0.2
# Of a shared group: written out and settled together.
_SHARED_AT_ONCE: Final = 100


Ack = Literal["auto", "release", "reject"]
"""What becomes of messages of a shared group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What to read, and when it is enough."""

    topic: str
    partition: int | None
    settings: ConsumerSettings
    count_max: int | None
    timeout_s: float | None
    until_end: bool
    encode: Callable[[Message], bytes]


# --- options: what they are called and how they are explained

_Max = Annotated[
    int | None, typer.Option("--max", min=0, metavar="COUNT", help="End after this many.")
]
_Timeout = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="End when nothing has come for this long, as in 5s."),
]
_UntilEnd = Annotated[
    bool, typer.Option("--until-end", help="End with the last message that is there now.")
]
_Partition = Annotated[
    int | None, typer.Option(min=0, metavar="NUMBER", help="Read this partition only.")
]
_Group = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Share it with this group: go on where it stopped, and move it on."
    ),
]
_Filter = Annotated[
    str | None,
    typer.Option("--filter", metavar="EXPRESSION", help="Only those, as in \"region = 'eu'\"."),
]
_Tag = Annotated[
    list[str] | None,
    typer.Option(metavar="WORD", help="Only messages with this tag; repeatable: any of them."),
]
_Key = Annotated[str | None, typer.Option(metavar="TEXT", help="Only messages with this key.")]
_KeyPrefix = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only messages whose key begins like this.")
]
_Push = Annotated[
    bool, typer.Option("--push", help="Have the broker push messages, instead of asking.")
]
_Shared = Annotated[
    bool,
    typer.Option("--shared", help="Share messages, not partitions, with the group's others."),
]
_Ordered = Annotated[
    bool,
    typer.Option("--ordered", help="With --shared: messages of one key one after another."),
]
_Ack = Annotated[
    Ack | None,
    typer.Option(
        help="With --shared: what becomes of a message that was written (auto: acknowledged)."
    ),
]
_ShowKey = Annotated[
    bool, typer.Option("--show-key", help="Write the key and a tab before the value.")
]


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.")],
    *,
    from_: Annotated[str, typer.Option("--from", metavar="WHERE", help=WAYS)] = "beginning",
    max_: _Max = None,
    timeout: _Timeout = None,
    until_end: _UntilEnd = False,
    partition: _Partition = None,
    group: _Group = None,
    filter_: _Filter = None,
    tag: _Tag = None,
    key: _Key = None,
    key_prefix: _KeyPrefix = None,
    push: _Push = False,
    shared: _Shared = False,
    ordered: _Ordered = False,
    ack: _Ack = None,
    show_key: _ShowKey = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Write messages to stdout, one per line.

    Reads what is there and then waits for more, unless told when to end. Values are written as
    they are; --json writes everything a message has. With a group, --from says where to begin
    in partitions that the group has not read. Exit code 1 if --timeout came before --max.
    The broker sends only what passes all of --filter, --tag, --key and --key-prefix; a group moves
    past the rest. With --shared each message is leased to one of the group's members, however many
    there are: --ack release gives them back at the end, --ack reject makes them dead letters.

    \b
    Examples:
      penstock consume orders
      penstock consume orders --from 10m-ago --json | jq .value
      penstock consume orders --partition 2 --from 1500 --max 10 --show-key
      penstock consume orders --group billing --until-end
      penstock consume jobs --group workers --shared --push
      penstock consume orders --tag paid --filter "price > 100 AND region IN ('eu', 'uk')"
    """
    job = _Job(
        topic=topic,
        partition=partition,
        settings={
            "group": group,
            "start": parse_start(from_, time.time_ns() // 1_000_000),
            "filter": filter_,
            "tags": tag or (),
            "key": None if key is None else key.encode(),
            "key_prefix": None if key_prefix is None else key_prefix.encode(),
            "push": push,
        },
        count_max=max_,
        timeout_s=duration_ms(timeout) / 1000 if timeout is not None else None,
        until_end=until_end,
        encode=_encode_json if as_json else _encode_pair if show_key else _encode_value,
    )
    if shared:
        sharing = _sharing(job, from_, ack, ordered=ordered)
        run_with_client(bootstrap, lambda mq: _share(mq, job, sharing, ack or "auto"))
        return
    if ordered or ack is not None:
        raise InvalidRequest("--ordered and --ack are for shared groups: add --shared.")
    run_with_client(bootstrap, lambda mq: _consume(mq, job))


def _sharing(job: _Job, from_: str, ack: Ack | None, *, ordered: bool) -> SharedConsumerSettings:
    """The same, of a shared group."""
    settings, start = job.settings, job.settings["start"]
    group = settings["group"]
    if group is None:
        raise InvalidRequest("--shared is for members of a group: add --group NAME.")
    if job.partition is not None or job.until_end:
        raise InvalidRequest(
            "Members of a shared group have no partitions and no end: leave out --partition and "
            "--until-end, and say --max or --timeout."
        )
    if start not in ("earliest", "latest"):
        raise InvalidRequest(
            f"A shared group begins at the beginning or the end: --from {from_} is neither."
        )
    return {
        "group": group,
        "ordered": ordered,
        "start": "latest" if start == "latest" else "earliest",
        "filter": settings["filter"],
        "tags": settings["tags"],
        "key": settings["key"],
        "key_prefix": settings["key_prefix"],
        "push": settings["push"],
        # What is given back at the end is kept until then.
        "auto_extend": ack == "release",
    }


async def _consume(mq: Client, job: _Job) -> None:
    # Asking first: a reader would wait for a topic that does not exist.
    description = await mq.admin.describe_topic(job.topic)
    ends = {
        (job.topic, each.partition): each.high_watermark
        for each in choose_partitions(description, job.partition, job.settings["start"])
    }
    topics = [job.topic] if job.partition is None else []
    async with mq.consumer(*topics, **job.settings) as consumer:
        if job.partition is not None:
            await consumer.assign([(job.topic, job.partition)])
        await until_interrupted(_copy(consumer, job, ends))


async def _share(mq: Client, job: _Job, sharing: SharedConsumerSettings, ack: Ack) -> None:
    await mq.admin.describe_topic(job.topic)
    async with mq.share(job.topic, **sharing) as consumer:
        kept: list[Message] = []
        try:
            await until_interrupted(_copy_shared(consumer, job, ack, kept))
        finally:
            for message in kept:
                await message.release()


async def _copy_shared(consumer: SharedConsumer, job: _Job, ack: Ack, kept: list[Message]) -> None:
    """Messages to the standard output, each settled when it has been written out."""
    _end_with_the_reader()
    count = 0
    while count != job.count_max:
        left = _SHARED_AT_ONCE if job.count_max is None else job.count_max - count
        messages = await consumer.fetch(min(left, _SHARED_AT_ONCE), job.timeout_s)
        if not messages and job.count_max is not None:
            raise TimedOut(f"Only {count} of {job.count_max} messages came in time.")
        if not messages or not _write(b"".join([job.encode(message) for message in messages])):
            return
        for message in messages:
            match ack:
                case "auto":
                    await message.ack()
                case "reject":
                    await message.reject("Rejected by `penstock consume --ack reject`.")
                case "release":
                    kept.append(message)
        count += len(messages)


async def _copy(consumer: Consumer, job: _Job, ends: dict[tuple[str, int], int]) -> None:
    """Messages to the standard output, until it is enough."""
    _end_with_the_reader()
    count = 0
    while count != job.count_max:
        if job.until_end and await _are_read(consumer, ends):
            return
        left = None if job.count_max is None else job.count_max - count
        messages = await _fetch(consumer, job, left, ends)
        if not messages:
            if job.until_end and await _are_read(consumer, ends):
                return
            if job.count_max is not None:
                raise TimedOut(f"Only {count} of {job.count_max} messages came in time.")
            return
        if job.until_end:
            # What came since is not asked for, nor are partitions that were added since.
            messages = [each for each in messages if each.offset < ends.get(_place(each), 0)]
        if not _write(b"".join([job.encode(message) for message in messages])):
            return
        if job.settings["group"] is not None:
            for message in messages:
                await message.ack()
        count += len(messages)


async def _fetch(
    consumer: Consumer, job: _Job, left: int | None, ends: dict[tuple[str, int], int]
) -> list[Message]:
    """The next messages; none when the time is over, or the ends are reached without any."""
    if not job.until_end:
        return await consumer.fetch(left, job.timeout_s)
    try:
        async with asyncio.timeout(job.timeout_s):
            # Compaction may have left no message before an end: then only the position gets there.
            while not (messages := await consumer.fetch(left, _LOOK_S)):
                if await _are_read(consumer, ends):
                    break
    except TimeoutError:
        return []
    return messages


async def _are_read(consumer: Consumer, ends: dict[tuple[str, int], int]) -> bool:
    """What another member of the group has is read when that one has committed it."""
    ours = consumer.partitions
    if not all(consumer.position(each) >= end for each, end in ends.items() if each in ours):
        return False
    for each in ends.keys() - set(ours):
        if (await consumer.committed(each) or 0) < ends[each]:
            return False
    return True


def _place(message: Message) -> tuple[str, int]:
    return message.topic, message.partition


def _end_with_the_reader() -> None:
    """End this task when nobody reads our output any more, also while there is nothing to write."""
    task = asyncio.current_task()
    assert task is not None
    if stat.S_ISFIFO(os.fstat(_STDOUT).st_mode):
        # The end that is written to becomes readable only by the error of having no reader.
        asyncio.get_running_loop().add_reader(_STDOUT, task.cancel)


def _write(data: bytes) -> bool:
    """Write all of it, past Python's buffers, which would complain at exit. False: nobody reads."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(_STDOUT, view) :]
    except BrokenPipeError:
        return False
    return True


def _encode_value(message: Message) -> bytes:
    return (message.value or b"") + b"\n"


def _encode_pair(message: Message) -> bytes:
    return (message.key or b"") + b"\t" + (message.value or b"") + b"\n"


def _encode_json(message: Message) -> bytes:
    return json.dumps(message_json(message), ensure_ascii=False).encode() + b"\n"
