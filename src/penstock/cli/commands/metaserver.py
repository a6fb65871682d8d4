"""`penstock metaserver`: one meta server in the foreground, until a signal ends it (R-REP-5).

One, three or five of them keep what a cluster consists of, for brokers whose registry is `meta://`
and the same servers. It prints one line when it listens; the first SIGTERM or SIGINT stops it in
order, a second one ends the process at once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from penstock import __version__
from penstock.cli.runtime import log_to_stderr, run, told_to_end
from penstock.model.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

_SESSION_TIMEOUT_MS_MIN = 500


def metaserver(
    number: Annotated[int, typer.Option("--id", metavar="N", help="Which of the servers it is.")],
    voters: Annotated[
        str,
        typer.Option(
            metavar="LIST", help="All servers: ID@HOST:PORT, with commas between; one, 3 or 5."
        ),
    ],
    data: Annotated[
        str, typer.Option(metavar="DIR", help="The folder that holds everything.")
    ] = "penstock-meta",
    listen: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="HOST:PORT; without it, as the list says."),
    ] = "",
    session_timeout_ms: Annotated[
        int,
        typer.Option(
            metavar="MS", help="A broker silent for so long is dead; the same on all servers."
        ),
    ] = 6_000,
) -> None:
    """Run a meta server.

    A quorum of them is a registry for brokers without ZooKeeper. The list of servers is the same
    for all, and stays.

    \b
    Examples:
      penstock metaserver --id 1 --voters 1@127.0.0.1:7001
      penstock metaserver --id 2 --data /var/lib/meta --voters 1@a:7000,2@b:7000,3@c:7000
    """
    from penstock.registry.meta_address import SCHEME
    from penstock.registry.metaserver.config import parse_meta

    servers = parse_meta(SCHEME + voters).servers
    if number not in servers:
        raise InvalidConfig(f"--id {number} is not among the servers of --voters: name it there.")
    if session_timeout_ms < _SESSION_TIMEOUT_MS_MIN:
        raise InvalidConfig(
            f"--session-timeout-ms {session_timeout_ms} is too short for a heartbeat to come in "
            f"time: {_SESSION_TIMEOUT_MS_MIN} is the least."
        )
    log_to_stderr(os.environ.get("PENSTOCK_LOG_LEVEL", "info"))
    run(_serve(data, number, servers, listen or servers[number], session_timeout_ms))


async def _serve(
    data: str, number: int, voters: Mapping[int, str], listen: str, session_timeout_ms: int
) -> None:
    from penstock.broker.data_folder import DataFolder
    from penstock.registry.metaserver.standalone import StandaloneMetaServer

    ending = told_to_end()
    folder = DataFolder(data)
    directory = folder.take()
    try:
        async with StandaloneMetaServer(
            directory, number, voters, listen, session_timeout_ms=session_timeout_ms
        ) as server:
            where = f"meta server {number} · listening on {server.address}"
            print(f"penstock {__version__} · {where} · data {data}", flush=True)
            await ending.wait()
    finally:
        folder.leave()
