"""`penstock clients`: list, park, resume."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import Row, note, show_json, show_table
from penstock.cli.runtime import Json, with_client

if TYPE_CHECKING:
    from penstock.client.admin.clients import ClientStatus
    from penstock.client.client import Client

app = typer.Typer(
    help="See who is connected, and stop or resume what is pushed to them.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="CLIENT", help="The client's name, or its id.")]
Group = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only what is pushed for this group.")
]


@app.command("list")
@with_client
async def list_(mq: Client, as_json: Json = False) -> None:
    """List the clients of every broker, and what is pushed to them.

    A client is alive; slow, when it has no credit left or did not answer in time; parked, when it
    did not answer again, or an operator has parked it; or lost, for some minutes after its
    connection broke, or it went without leaving its groups. Groups are told by the broker that
    looks after them.

    \b
    Examples:
      penstock clients list
      penstock clients list --json | jq '.clients[] | select(.state != "alive")'
    """
    found = await mq.clients.list()
    if as_json:
        show_json(asdict(found))
        return
    now_ms = time.time_ns() // 1_000_000
    show_table([_client_row(client, now_ms) for client in found.clients])
    if streams := list(_stream_rows(found.clients)):
        print()
        show_table(streams)
    for broker in found.silent_brokers:
        note(f"Broker {broker} did not answer: its clients are missing.")


@app.command()
@with_client
async def park(mq: Client, name: Name, group: Group = None) -> None:
    """Stop what is pushed to a client, until it is resumed.

    \b
    Examples:
      penstock clients park billing-7
      penstock clients park billing-7 --group audit
    """
    note(f"{_streams(await mq.clients.park(name, group))} of {name} parked.")


@app.command()
@with_client
async def resume(mq: Client, name: Name, group: Group = None) -> None:
    """Let what is pushed to a client go on.

    \b
    Examples:
      penstock clients resume billing-7
    """
    note(f"{_streams(await mq.clients.resume(name, group))} of {name} resumed.")


def _client_row(client: ClientStatus, now_ms: int) -> Row:
    state = f"lost: {client.reason}" if client.state == "lost" else client.state
    return {
        "name": client.name,
        "state": state,
        "broker": client.broker,
        "id": str(client.id),
        "address": client.address,
        "protocol": client.protocol,
        "software": client.software,
        "heard": f"{max(now_ms - client.heard_at_ms, 0) / 1000:.1f} s ago",
        "groups": ", ".join(client.groups),
    }


def _stream_rows(clients: Iterable[ClientStatus]) -> Iterable[Row]:
    for client in clients:
        for stream in client.streams:
            yield {
                "client": client.name,
                "partition": f"{stream.topic}-{stream.partition}",
                "group": stream.group,
                "state": stream.state,
                "in_flight": stream.in_flight,
                "credit": stream.credit,
                "delivered": stream.delivered,
                "timeouts": stream.timeouts,
                "reason": stream.reason,
            }


def _streams(count: int) -> str:
    return "1 stream" if count == 1 else f"{count} streams"
