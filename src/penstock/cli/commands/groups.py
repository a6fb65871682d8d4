"""`penstock groups`: list, describe, settings, reset, delete; and `penstock subscriptions`."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import Row, note, say, show_json, show_rows, show_table
from penstock.cli.runtime import DEFAULT_BOOTSTRAP, Bootstrap, Json, run_with_client, with_client
from penstock.cli.settings import split_assignment
from penstock.cli.starts import WAYS, choose_partitions, parse_start
from penstock.model.errors import GroupNotEmpty, InvalidRequest

if TYPE_CHECKING:
    from penstock.client.admin.groups import GroupDescription
    from penstock.client.client import Client
    from penstock.client.consuming.starts import Start

app = typer.Typer(
    help="List, describe, configure, reset and delete groups of consumers.", no_args_is_help=True
)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]


@dataclass(frozen=True, slots=True)
class _Move:
    """From where to where a group goes in one partition."""

    topic: str
    partition: int
    now: int | None
    then: int
    lag_now: int
    lag_then: int


@app.command("list")
@with_client
async def list_(mq: Client, as_json: Json = False) -> None:
    """List the groups: how many members each has, what it reads, and how far it is behind.

    \b
    Examples:
      penstock groups list
      penstock groups list --json
    """
    rows = [
        {
            "group": group.name,
            "kind": group.kind,
            "state": group.state,
            "members": len(group.members),
            "topics": group.topics,
            "lag": group.lag,
        }
        for group in await mq.groups.describe_all()
    ]
    show_rows(
        rows,
        as_json=as_json,
        empty="There are no groups yet: `penstock consume TOPIC --group NAME` makes one.",
    )


@app.command()
@with_client
async def describe(mq: Client, group: Group, as_json: Json = False) -> None:
    """Show a group's members, and in each partition who has it and how far it is behind.

    \b
    Examples:
      penstock groups describe billing
      penstock groups describe billing --json
    """
    _show(await mq.groups.describe(group), as_json=as_json)


@app.command()
def settings(
    group: Group,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the group; repeatable."),
    ] = None,
    reset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Give a setting the broker's value again; repeatable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Show what is decided for a group, by Kafka's names, and change it.

    The group need not be there yet, and its settings stay when it is deleted.

    \b
    Examples:
      penstock groups settings workers
      penstock groups settings workers --set share.auto.offset.reset=latest
      penstock groups settings workers --reset share.record.lock.duration.ms
    """
    wanted = dict(map(split_assignment, set_ or []))

    async def work(mq: Client) -> None:
        if wanted or reset:
            await mq.groups.configure(group, wanted, reset or [])
        found = await mq.groups.settings(group)
        rows = [
            {
                "setting": name,
                "value": value,
                "from": "group" if name in found.changed else "broker",
            }
            for name, value in sorted(found.values.items())
        ]
        show_rows(rows, as_json=as_json, empty="")

    run_with_client(bootstrap, work)


@app.command()
def reset(
    group: Group,
    to: Annotated[str, typer.Option(metavar="WHERE", help=WAYS)],
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="Only in this topic; repeatable. Else in all it reads."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="NUMBER", help="Only in this partition.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; else it is only shown.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Let a group go on reading elsewhere.

    Shows what would change, and changes it with --yes. Stop the group's consumers first: while it
    has members it is not moved.

    \b
    Examples:
      penstock groups reset billing --to earliest
      penstock groups reset billing --topic orders --to 2h-ago --yes
      penstock groups reset billing --topic orders --partition 0 --to 1500 --yes
    """
    start = parse_start(to, time.time_ns() // 1_000_000)

    async def work(mq: Client) -> None:
        described = await mq.groups.describe(group)
        if described.members:
            names = ", ".join(sorted({member.name for member in described.members}))
            raise GroupNotEmpty(
                f"Group {group} has {len(described.members)} members ({names}): stop them first."
            )
        moves = await _moves(mq, described, topic or described.topics, partition, start)
        if as_json:
            show_json([asdict(move) for move in moves])
        else:
            show_table([asdict(move) for move in moves])
        if not yes:
            note("Nothing has changed: --yes does it.")
            return
        await mq.groups.move(group, {(move.topic, move.partition): move.then for move in moves})
        note(f"Group {group} goes on there.")

    run_with_client(bootstrap, work)


@app.command()
def delete(
    group: Group,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete a group: its place in every topic is forgotten.

    Topics that it read point to point are everybody's then. A group that has members stays.

    \b
    Examples:
      penstock groups delete billing
      penstock groups delete billing --yes
    """
    if not yes:
        typer.confirm(f"Delete {group} and its place in every topic?", abort=True, err=True)

    async def work(mq: Client) -> None:
        await mq.groups.delete(group)
        note(f"Group {group} deleted.")

    run_with_client(bootstrap, work)


@with_client
async def subscriptions(
    mq: Client,
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="This topic only.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which groups read which topics, how far each is behind, and whether one alone may.

    In the mode publish-subscribe every group gets every message; point-to-point is for one group.

    \b
    Examples:
      penstock subscriptions
      penstock subscriptions orders --json
    """
    found = await mq.groups.subscriptions(topic or "")
    if topic and not found:
        await mq.admin.describe_topic(topic)  # raises that there is none
    names = sorted({name for each in found for name in each.groups})
    described = {group.name: group for group in await mq.groups.describe_those(names)}
    rows: list[Row] = []
    for each in found:
        lags = {
            name: described[name].lag_in(each.topic)
            for name in each.groups
            if name in described  # else it was deleted in this moment
        }
        rows.append(
            {
                "topic": each.topic,
                "mode": "point-to-point" if each.is_point_to_point else "publish-subscribe",
                "groups": list(lags),
                "lag": lags,
                "groups_and_lag": [f"{name} ({lag})" for name, lag in lags.items()],
            }
        )
    if as_json:
        show_json(
            [{name: row[name] for name in ("topic", "mode", "groups", "lag")} for row in rows]
        )
    elif rows:
        show_table(rows, ("topic", "mode", "groups_and_lag"))
    else:
        note(f"No group reads {topic or 'anything'} yet.")


def _show(group: GroupDescription, *, as_json: bool) -> None:
    names = {member.member_id: member.name for member in group.members}
    members: list[Row] = [
        {
            "member": member.member_id,
            "name": member.name,
            "host": member.host,
            "instance": member.instance_id,
            "epoch": member.epoch,
            "topics": list(member.topics),
            "partitions": [f"{topic}-{number}" for topic, number in member.partitions],
        }
        for member in group.members
    ]
    places: list[Row] = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "committed": place.committed,
            "end": place.end,
            "lag": place.lag,
            "member": place.member_id,
            "read_by": names.get(place.member_id or ""),
            "dead": place.dead,
            "expired": place.expired,
        }
        for place in group.places
    ]
    if as_json:
        show_json(
            {
                "group": group.name,
                "kind": group.kind,
                "state": group.state,
                "assignor": group.assignor or None,
                "epoch": group.epoch,
                "lag": group.lag,
                "members": members,
                "places": places,
            }
        )
        return
    how = f", assigned by {group.assignor}" if group.assignor and members else ""
    say(f"Group {group.name}: {group.kind}, {group.state}{how}, lag {group.lag}.")
    if members:
        show_table(members, ("member", "host", "epoch", "topics"))
    if places:
        counted = ("dead", "expired") if group.kind == "shared" else ("read_by",)
        show_table(places, ("topic", "partition", "committed", "end", "lag", *counted))


async def _moves(
    mq: Client, group: GroupDescription, topics: list[str], partition: int | None, start: Start
) -> list[_Move]:
    """From where to where, in each partition meant."""
    if not topics:
        raise InvalidRequest(f"Group {group.name} has read nothing yet: say in which --topic.")
    if partition is not None and len(topics) > 1:
        raise InvalidRequest(
            f"{len(topics)} topics have a partition {partition}: give one --topic."
        )
    places = {(place.topic, place.partition): place for place in group.places}
    moves = []
    for topic in topics:
        description = await mq.admin.describe_topic(topic)
        for each in choose_partitions(description, partition, start):
            place = places.get((topic, each.partition))
            now = None if place is None else place.committed
            then = await mq.admin.find_offset(topic, each.partition, start)
            lag_now = each.high_watermark - each.log_start_offset
            if place is not None and place.lag is not None:
                lag_now = place.lag
            lag_then = max(each.high_watermark - then, 0)
            moves.append(_Move(topic, each.partition, now, then, lag_now, lag_then))
    return moves
