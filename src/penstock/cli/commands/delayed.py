"""`penstock delayed`: messages that wait until they are due, shown and cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import FAILED, note, say, show_json, show_rows
from penstock.cli.quantities import moment_text, size_text
from penstock.cli.runtime import Json, with_client

if TYPE_CHECKING:
    from penstock.client.client import Client

app = typer.Typer(help="Messages that wait until they are due.", no_args_is_help=True)


@app.command()
@with_client
async def describe(
    mq: Client,
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="This topic only.", show_default=False)
    ] = "",
    as_json: Json = False,
) -> None:
    """Show how many messages wait, and how their delivery goes.

    What was delivered, cancelled and dropped is counted since the broker that looks after delayed
    messages began to.

    \b
    Examples:
      penstock delayed describe
      penstock delayed describe reminders --json
    """
    status = await mq.delayed.describe(topic)
    rows = [
        {"topic": each.topic, "waiting": each.pending, "bytes": each.pending_bytes}
        for each in status.topics
    ]
    if as_json:
        facts = {
            "topics": rows,
            "next_due_ms": status.next_due_ms,
            "delivered": status.delivered,
            "cancelled": status.cancelled,
            "dropped": status.dropped,
            "late_ms_max": status.late_ms_max,
            "log_bytes": status.log_bytes,
        }
        show_json(facts)
        return
    show_rows(rows, as_json=False, empty="No message waits.")
    if status.next_due_ms is not None:
        say(f"next: {moment_text(status.next_due_ms)}")
    say(
        f"delivered: {status.delivered}, cancelled: {status.cancelled}, "
        f"dropped: {status.dropped}, at most {status.late_ms_max} ms late; "
        f"{size_text(status.log_bytes)} on disk"
    )


@app.command()
@with_client
async def cancel(
    mq: Client,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="From the receipts.")],
    as_json: Json = False,
) -> None:
    """Cancel messages that wait.

    Ends with exit code 1 if one of them was delivered or cancelled before, or never was.

    \b
    Examples:
      penstock delayed cancel 19c14f5ae80-2a
    """
    outcomes = await mq.delayed.cancel(*ids)
    if as_json:
        show_json(dict(zip(ids, outcomes, strict=True)))
    else:
        for each, is_cancelled in zip(ids, outcomes, strict=True):
            note(f"{each}: {'cancelled' if is_cancelled else 'is not waiting (any more)'}")
    if not all(outcomes):
        raise typer.Exit(FAILED)
