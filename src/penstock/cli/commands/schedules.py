"""`penstock schedules`: messages that are published at the times of a cron expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import note, show_rows
from penstock.cli.quantities import moment_text
from penstock.cli.runtime import Json, with_client
from penstock.cli.settings import split_assignment

if TYPE_CHECKING:
    from penstock.client.client import Client

app = typer.Typer(help="Messages that are published again and again.", no_args_is_help=True)


@app.command("list")
@with_client
async def show(mq: Client, as_json: Json = False) -> None:
    """List the schedules, and when each comes next.

    \b
    Examples:
      penstock schedules list
    """
    rows = [
        {
            "name": each.name,
            "cron": each.cron,
            "time_zone": each.time_zone or "UTC",
            "topic": each.topic,
            "next": moment_text(each.next_due_ms),
            "published": each.published,
            "problem": each.problem,
        }
        for each in await mq.schedules.list()
    ]
    show_rows(rows, as_json=as_json, empty="There is no schedule.")


@app.command()
@with_client
async def put(
    mq: Client,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the schedule.")],
    cron: Annotated[str, typer.Argument(metavar="CRON", help="As '0 9 * * mon-fri'.")],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to publish.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Of the message.")],
    *,
    key: Annotated[str | None, typer.Option(metavar="TEXT", help="Of the message.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Give the message this header; repeatable."),
    ] = None,
    time_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="As Europe/Berlin.", show_default="UTC")
    ] = "",
) -> None:
    """Make a schedule, or replace the one of this name.

    The cron expression has five fields, or six with seconds first; or is @every 90s, @hourly,
    @daily, @weekly, @monthly or @yearly. Of times that were missed, one message is published.

    \b
    Examples:
      penstock schedules put report '0 9 * * mon-fri' jobs report --time-zone Europe/Berlin
      penstock schedules put beat '@every 10s' beats alive
    """
    schedule = await mq.schedules.put(
        name,
        cron,
        topic,
        value.encode(),
        None if key is None else key.encode(),
        headers={
            header_name: content.encode()
            for header_name, content in map(split_assignment, header or [])
        },
        time_zone=time_zone,
    )
    note(f"Schedule {name} comes next at {moment_text(schedule.next_due_ms)}.")


@app.command()
@with_client
async def delete(
    mq: Client,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the schedule.")],
) -> None:
    """Delete a schedule.

    \b
    Examples:
      penstock schedules delete report
    """
    await mq.schedules.delete(name)
    note(f"Schedule {name} is deleted.")
