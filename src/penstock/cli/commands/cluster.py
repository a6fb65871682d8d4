"""`penstock cluster`: status, add, drain, move, rebalance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.commands.cluster_status import (
    list_text,
    partitions_text,
    show_some,
    show_status,
    status_json,
)
from penstock.cli.output import INTERRUPTED, Row, note, progress, show_json
from penstock.cli.quantities import size_text
from penstock.cli.runtime import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    run_with_client,
    until_interrupted,
    with_client,
)
from penstock.model.errors import InvalidRequest

if TYPE_CHECKING:
    from penstock.client.admin.cluster import (
        ClusterAdmin,
        Move,
        PartitionStatus,
    )
    from penstock.client.client import Client

app = typer.Typer(
    help="See how a cluster is, and move partitions between its brokers.", no_args_is_help=True
)

Broker = Annotated[int, typer.Argument(metavar="BROKER", min=0, help="The broker's number.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would move, and move nothing.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait until everything has moved.")]

_LOOK_S: Final = 0.5


@app.command()
@with_client
async def status(
    mq: Client,
    everything: Annotated[
        bool, typer.Option("--all", help="Every partition, and not only those that are not well.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the brokers, and the partitions that are moving or lack something.

    \b
    Examples:
      penstock cluster status
      penstock cluster status --all
      penstock cluster status --json
    """
    found = await mq.cluster.status()
    if as_json:
        show_json(status_json(found))
    else:
        show_status(found, everything=everything)


@app.command()
def add(
    broker: Broker,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Spread partitions onto a broker that has joined the cluster, or was drained.

    A broker joins by being started with the cluster's registry and a number of its own. New topics
    use it from then on; this command gives it a share of those that are there.

    \b
    Examples:
      penstock cluster add 4
      penstock cluster add 4 --dry-run
    """
    _change(
        bootstrap,
        lambda cluster: cluster.add(broker, dry_run=dry_run),
        dry_run=dry_run,
        no_wait=no_wait,
        as_json=as_json,
        nothing=f"Broker {broker} has its share of the partitions already.",
    )


@app.command()
def drain(
    broker: Broker,
    onto: Annotated[
        int | None, typer.Option(metavar="BROKER", min=0, help="The broker that replaces it.")
    ] = None,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Move everything off a broker, so that it can be stopped, or replace one that is dead.

    It gets nothing new until `penstock cluster add`.

    \b
    Examples:
      penstock cluster drain 3
      penstock cluster drain 3 --dry-run
      penstock cluster drain 3 --onto 4
    """
    _change(
        bootstrap,
        lambda cluster: cluster.drain(broker, onto, dry_run=dry_run),
        dry_run=dry_run,
        no_wait=no_wait,
        as_json=as_json,
        nothing=f"Nothing is on broker {broker}, and it gets nothing new.",
    )


@app.command()
def move(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    to: Annotated[
        str,
        typer.Option(metavar="BROKERS", help="As in 3,1,2; the first is to lead."),
    ] = "",
    partition: Annotated[
        list[int] | None,
        typer.Option(metavar="NUMBER", min=0, help="Only this one; repeatable. Default: all."),
    ] = None,
    replicas: Annotated[
        int, typer.Option(metavar="COUNT", min=0, help="Have this many copies, wherever it fits.")
    ] = 0,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Put a topic's partitions on brokers that you name, or change how many copies they have.

    \b
    Examples:
      penstock cluster move orders --partition 0 --to 4,2,3
      penstock cluster move orders --to 1,2,3
      penstock cluster move orders --replicas 3
    """
    if bool(to) == bool(replicas) or (replicas and partition):
        raise InvalidRequest(
            "Say where the partitions go with --to, or how many copies all of them have with "
            "--replicas."
        )
    brokers = _brokers(to)

    def change(cluster: ClusterAdmin) -> Awaitable[list[Move]]:
        if replicas:
            return cluster.replicate(topic, replicas, dry_run=dry_run)
        return cluster.move(topic, brokers, partition or (), dry_run=dry_run)

    _change(
        bootstrap,
        change,
        dry_run=dry_run,
        no_wait=no_wait,
        as_json=as_json,
        nothing="That is how it should be already.",
    )


@app.command()
def rebalance(
    leaders: Annotated[
        bool, typer.Option("--leaders", help="Move no data: let the preferred brokers lead, now.")
    ] = False,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Spread partitions and their leaders evenly over the brokers, moving as few as can be.

    Leadership comes back to the preferred brokers by itself, some seconds after they are in sync.

    \b
    Examples:
      penstock cluster rebalance --dry-run
      penstock cluster rebalance
      penstock cluster rebalance --leaders
    """
    if leaders:
        if dry_run:
            raise InvalidRequest("--leaders moves nothing, so there is no plan: leave out one.")
        _elect(bootstrap, as_json=as_json)
        return
    _change(
        bootstrap,
        lambda cluster: cluster.rebalance(dry_run=dry_run),
        dry_run=dry_run,
        no_wait=no_wait,
        as_json=as_json,
        nothing="Everything is as even as it can be.",
    )


# --- changes -----------------------------------------------------------------------------------


def _change(
    bootstrap: str,
    change: Callable[[ClusterAdmin], Awaitable[list[Move]]],
    *,
    dry_run: bool,
    no_wait: bool,
    as_json: bool,
    nothing: str,
) -> None:
    """Let it be changed, show what moves, and wait until it has."""

    async def work(mq: Client) -> None:
        moves = await change(mq.cluster)
        if as_json:
            show_json([_move_row(each) for each in moves])
        elif moves:
            show_some([_move_row(each) for each in moves])
        else:
            note(nothing)
        if not moves:
            return
        if dry_run:
            note("Nothing was moved: this is what would be, without --dry-run.")
        elif no_wait:
            note("They are moving: see how far with `penstock cluster status`.")
        elif await until_interrupted(_wait(mq, moves, shown=not as_json)):
            note(f"{partitions_text(len(moves))} moved.")
        else:
            note("The moving goes on without this command: see `penstock cluster status`.")
            raise typer.Exit(INTERRUPTED)

    run_with_client(bootstrap, work)


async def _wait(mq: Client, moves: Sequence[Move], *, shown: bool) -> None:
    wanted = {(each.topic, each.partition) for each in moves}
    with progress(len(wanted), shown=shown) as show:
        while True:
            found = await mq.cluster.status(moving_only=True)
            left = [each for each in found.partitions if (each.topic, each.partition) in wanted]
            if not left:
                return
            show(len(wanted) - len(left), _left_text(left))
            await asyncio.sleep(_LOOK_S)


def _left_text(left: Sequence[PartitionStatus]) -> str:
    bytes_left = [learner.bytes_left or 0 for each in left for learner in each.learners]
    copying = f", {size_text(sum(bytes_left))} to copy" if bytes_left else ""
    return f"{partitions_text(len(left))} left{copying}"


def _elect(bootstrap: str, *, as_json: bool) -> None:
    async def work(mq: Client) -> None:
        outcomes = await mq.cluster.elect_leaders()
        rows: list[Row] = [
            {"topic": name.topic, "partition": name.partition, "outcome": outcome}
            for name, outcome in sorted(outcomes.items())
        ]
        if as_json:
            show_json(rows)
        elif rows:
            show_some(rows)
        else:
            note("The preferred brokers lead everything already.")

    run_with_client(bootstrap, work)


# --- what is shown -----------------------------------------------------------------------------


def _move_row(entry: Move) -> Row:
    return {
        "topic": entry.topic,
        "partition": entry.partition,
        "from": list_text(entry.before),
        "to": list_text(entry.after),
    }


def _brokers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise InvalidRequest(
            f"{text!r} is no list of brokers: write their numbers with commas, as in 3,1,2."
        ) from None
