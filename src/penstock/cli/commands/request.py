"""`penstock request`: publish one message and print the reply of whoever serves the topic."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.message_json import message_json
from penstock.cli.output import show_json
from penstock.cli.quantities import duration_ms
from penstock.cli.runtime import DEFAULT_BOOTSTRAP, Bootstrap, Json, run_with_client
from penstock.cli.settings import split_assignment

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.records import Message


def request(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Whom to ask.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="What to ask.")],
    *,
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The message's key, if it has one.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Give the message this header; repeatable."),
    ] = None,
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="How long to wait for the reply.")
    ] = "5s",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Ask, and print the reply.

    The message is published to the topic like any other; whoever reads it there may reply to it
    (`await message.reply(value)`). Ends with exit code 1 if no reply comes in time.

    \b
    Examples:
      penstock request prices tea
      penstock request prices tea --timeout 500ms --header currency=EUR --json
    """
    headers = [(name, text.encode()) for name, text in map(split_assignment, header or [])]

    async def ask(mq: Client) -> Message:
        return await mq.request(
            topic,
            value.encode(),
            key.encode() if key is not None else None,
            headers=headers,
            timeout=duration_ms(timeout) / 1000,
        )

    reply = run_with_client(bootstrap, ask)
    if as_json:
        shown = message_json(reply)
        # A reply is in no partition.
        show_json({name: shown[name] for name in shown if name not in ("partition", "offset")})
    else:
        sys.stdout.buffer.write((reply.value or b"") + b"\n")
