"""`penstock topics`: list, create, describe, alter, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.output import Row, note, show_json, show_rows, show_table
from penstock.cli.quantities import moment_text
from penstock.cli.runtime import DEFAULT_BOOTSTRAP, Bootstrap, Json, run_with_client, with_client
from penstock.cli.settings import topic_settings
from penstock.model.errors import InvalidRequest

if TYPE_CHECKING:
    from penstock.client.admin.topics import Admin, TopicDescription
    from penstock.client.client import Client

app = typer.Typer(help="List, create, describe, alter and delete topics.", no_args_is_help=True)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "--config", metavar="NAME=VALUE", help="A setting of the topic; repeatable."
    ),
]

# What `describe` shows together. A setting that is not here has no effect, or is of a newer broker.
GROUPS: Final = {
    "safety": ("durability", "min_insync_replicas"),
    "cleanup": ("cleanup_policy", "retention_ms", "retention_bytes"),
    "compaction": (
        "min_cleanable_dirty_ratio",
        "min_compaction_lag_ms",
        "max_compaction_lag_ms",
        "delete_retention_ms",
    ),
    "messages": (
        "batch_bytes_max",
        "timestamp_type",
        "timestamp_before_max_ms",
        "timestamp_after_max_ms",
        "compression_type",
        "compression_gzip_level",
        "compression_zstd_level",
        "exclusive_producer",
    ),
    "segments": ("segment_bytes", "segment_ms", "index_interval_bytes"),
}

# Why messages are gone, as far back as is worth a look; `--json` has all that the broker remembers.
REMOVALS_SHOWN: Final = 3


@app.command("list")
@with_client
async def list_(mq: Client, as_json: Json = False) -> None:
    """List the topics.

    \b
    Examples:
      penstock topics list
      penstock topics list --json
    """
    rows = [
        {"name": topic.name, "partitions": topic.partition_count}
        for topic in await mq.admin.list_topics()
    ]
    show_rows(
        rows,
        as_json=as_json,
        empty="There are no topics yet: `penstock topics create NAME` makes one.",
    )


@app.command()
def create(
    topic: Topic,
    partitions: Annotated[
        int, typer.Option(min=0, metavar="COUNT", help="How many; 0: the broker's default.")
    ] = 0,
    replicas: Annotated[
        int,
        typer.Option(min=0, metavar="COUNT", help="Copies of each; 0: the broker's default."),
    ] = 0,
    set_: Settings = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic.

    Settings are those of docs/configuration.md; sizes may be written as 64MiB, times as 72h.

    \b
    Examples:
      penstock topics create orders --partitions 4 --replicas 3
      penstock topics create audit --set retention_ms=-1 --set segment_bytes=1GiB
      penstock topics create prices --set cleanup.policy=compact
    """
    settings = topic_settings(set_ or [])

    async def work(mq: Client) -> None:
        await mq.admin.create_topic(topic, partitions, settings, replicas=replicas)
        note(f"Topic {topic} created.")

    run_with_client(bootstrap, work)


@app.command()
@with_client
async def describe(mq: Client, topic: Topic, as_json: Json = False) -> None:
    """Show a topic's partitions and settings, and why messages are gone from it.

    \b
    Examples:
      penstock topics describe orders
      penstock topics describe orders --json
    """
    described = await mq.admin.describe_topic(topic)
    _show(described, await _removals(mq.admin, described), as_json=as_json)


@app.command()
def alter(
    topic: Topic,
    set_: Settings = None,
    reset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Give a setting its default again; repeatable."),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, metavar="COUNT", help="Have this many, more than now.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Change a topic's settings, or add partitions to it.

    More partitions move where new messages of a key go; what is there stays where it is.

    \b
    Examples:
      penstock topics alter orders --set retention_ms=7d --reset segment_bytes
      penstock topics alter orders --partitions 8
    """
    settings = topic_settings(set_ or [])
    if not settings and not reset and partitions is None:
        raise InvalidRequest("There is nothing to change: give --set, --reset or --partitions.")

    async def work(mq: Client) -> None:
        if settings or reset:
            await mq.admin.alter_topic(topic, settings, reset or [])
        if partitions is not None:
            await mq.admin.add_partitions(topic, partitions)
        note(f"Topic {topic} altered.")

    run_with_client(bootstrap, work)


@app.command()
def delete(
    topic: Topic,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete a topic and all its messages.

    \b
    Examples:
      penstock topics delete orders
      penstock topics delete orders --yes
    """
    if not yes:
        typer.confirm(f"Delete {topic} and all its messages?", abort=True, err=True)

    async def work(mq: Client) -> None:
        await mq.admin.delete_topic(topic)
        note(f"Topic {topic} deleted.")

    run_with_client(bootstrap, work)


async def _removals(admin: Admin, topic: TopicDescription) -> list[list[Row]]:
    """What is gone from each partition, oldest first; an offline one cannot be asked."""
    partitions = [entry.partition for entry in topic.partitions if not entry.is_offline]
    answers = await asyncio.gather(*(admin.removals(topic.name, one) for one in partitions))
    return [
        [
            {
                "partition": partition,
                "first": removal.first_offset,
                "last": removal.end_offset - 1,
                "gone_by": removal.cause,
                "at": moment_text(removal.at_ms),
                "because": removal.detail,
            }
            for removal in removals
        ]
        for partition, removals in zip(partitions, answers, strict=True)
    ]


def _show(topic: TopicDescription, removals: Sequence[Sequence[Row]], *, as_json: bool) -> None:
    partitions = [
        {
            "partition": entry.partition,
            "leader": entry.leader,
            "replicas": list(entry.replicas),
            "in_sync": list(entry.in_sync),
            "start": entry.log_start_offset,
            "end": entry.high_watermark,
            "bytes": entry.size_bytes,
            "segments": entry.segment_count,
            "problem": str(entry.error) if entry.error is not None else None,
        }
        for entry in topic.partitions
    ]
    if as_json:
        show_json(
            {
                "name": topic.name,
                "id": topic.topic_id,
                "partitions": partitions,
                "removals": [removal for some in removals for removal in some],
                "config": dict(topic.config),
                "changed": sorted(topic.changed),
            }
        )
        return
    settings = [
        {
            "about": about,
            "setting": name,
            "value": topic.config[name],
            "from": "topic" if name in topic.changed else "default",
        }
        for about, names in _grouped(topic.config)
        for name in names
    ]
    show_table(partitions)
    latest = [removal for some in removals for removal in some[-REMOVALS_SHOWN:]]
    if latest:
        show_table(latest)
    show_table(settings)


def _grouped(config: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """The names of a topic's settings, by what they are about."""
    known = {name for names in GROUPS.values() for name in names}
    for about, names in GROUPS.items():
        yield about, [name for name in names if name in config]
    yield "other", sorted(config.keys() - known)
