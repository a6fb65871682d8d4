"""`penstock offsets`: where partitions begin and end, and how far groups have come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import note, show_rows
from penstock.cli.runtime import DEFAULT_BOOTSTRAP, Bootstrap, Json, run_with_client, with_client
from penstock.cli.starts import WAYS, choose_partitions, parse_start
from penstock.model.ids import TopicPartition

if TYPE_CHECKING:
    from penstock.client.client import Client

app = typer.Typer(help="Show where partitions end, and move groups.", no_args_is_help=True)


@app.command()
@with_client
async def show(
    mq: Client,
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="This topic only.", show_default=False)
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Also how far this group has come.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the first and the next offset of partitions.

    With a group also the offset it reads next and its lag: how many messages are still to come.

    \b
    Examples:
      penstock offsets show
      penstock offsets show orders --group billing
    """
    committed = await mq.admin.group_offsets(group) if group is not None else None
    if topic is not None:
        names = [topic]
    elif committed is not None:
        names = sorted({partition.topic for partition in committed})
    else:
        names = [each.name for each in await mq.admin.list_topics()]
    rows = [row for name in names for row in await _rows(mq, name, committed)]
    show_rows(
        rows,
        as_json=as_json,
        empty="There is nothing to show: no topic, or the group has read nothing yet.",
    )


@app.command()
@with_client
async def groups(mq: Client, as_json: Json = False) -> None:
    """List the groups that have come to some offset.

    \b
    Examples:
      penstock offsets groups
    """
    rows = [{"group": name} for name in await mq.admin.list_groups()]
    show_rows(rows, as_json=as_json, empty="No group has read anything yet.")


@app.command()
def commit(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    group: Annotated[str, typer.Option(metavar="NAME", help="The group to move.")],
    to: Annotated[str, typer.Option(metavar="WHERE", help=WAYS)],
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="NUMBER", help="Move it in this partition only.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Let a group go on reading elsewhere.

    Stop its consumers first: one that runs will commit its own place again.

    \b
    Examples:
      penstock offsets commit orders --group billing --to beginning
      penstock offsets commit orders --group billing --to 2h-ago
      penstock offsets commit orders --group billing --partition 0 --to 1500
    """
    start = parse_start(to, time.time_ns() // 1_000_000)

    async def work(mq: Client) -> None:
        description = await mq.admin.describe_topic(topic)
        offsets = {
            (topic, each.partition): await mq.admin.find_offset(topic, each.partition, start)
            for each in choose_partitions(description, partition, start)
        }
        await mq.admin.commit_offsets(group, offsets)
        note(f"Group {group} goes on at {', '.join(map(str, offsets.values()))}.")

    run_with_client(bootstrap, work)


async def _rows(
    mq: Client, topic: str, committed: dict[TopicPartition, int] | None
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for entry in (await mq.admin.describe_topic(topic)).partitions:
        row: dict[str, object] = {
            "topic": topic,
            "partition": entry.partition,
            "start": entry.log_start_offset,
            "end": entry.high_watermark,
        }
        if committed is not None:
            place = committed.get(TopicPartition(topic, entry.partition))
            # Where a group has not begun, everything that is there is still to come.
            read = entry.log_start_offset if place is None else place
            row |= {"committed": place, "lag": entry.high_watermark - read}
        rows.append(row)
    return rows
