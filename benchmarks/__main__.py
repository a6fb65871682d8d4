"""`python -m benchmarks`: ask the questions, print one table, keep the rows as JSON.

Not a test: it judges the budgets in the table and ends with 0 whatever they say, because a time on
a shared machine is no verdict. Invariant: what is printed and what is kept are the same rows.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import penstock
from benchmarks import (
    client,
    codec,
    compaction,
    delayed,
    delivery,
    end_to_end,
    failover,
    filters,
    many_partitions,
    partitions,
    produce_pipelined,
    produce_round_trip,
    push,
    readers,
    replicated,
    replication_cost,
    report,
    request_reply,
    servers,
    spark,
    startup,
    throughput,
)
from benchmarks.machine import ForeignLoad
from benchmarks.report import Row

RESULTS: Final = Path(__file__).parent / "results"


def _codec(*, quick: bool, peers: bool) -> list[Row]:  # noqa: ARG001
    """Its peers are packages that are always there."""
    return codec.run(quick=quick)


QUESTIONS: Final[dict[str, Callable[..., list[Row]]]] = {
    "codec": _codec,
    "produce_round_trip": produce_round_trip.run,
    "produce_pipelined": produce_pipelined.run,
    "throughput": throughput.run,
    "client": client.run,
    "end_to_end": end_to_end.run,
    "request_reply": request_reply.run,
    "push": push.run,
    "readers": readers.run,
    "delivery": delivery.run,
    "partitions": partitions.run,
    "startup": startup.run,
    "compaction": compaction.run,
    "filters": filters.run,
    "delayed": delayed.run,
    "replicated": replicated.run,
    "replication_cost": replication_cost.run,
    "failover": failover.run,
    "many_partitions": many_partitions.run,
    "spark": spark.run,
}


def main(arguments: list[str]) -> None:
    options = _parse(arguments)
    if options.peers:
        _have_peers()
    rows: list[Row] = []
    foreign_rows: list[Row] = []
    for name in options.only or QUESTIONS:
        print(f"==> {name}", file=sys.stderr, flush=True)
        os.sync()  # what the last question wrote would slow this one's disk
        foreign = ForeignLoad()
        rows += QUESTIONS[name](quick=options.quick, peers=options.peers)
        foreign_rows.append(foreign.row(name))
    rows += foreign_rows
    report.show(rows)
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}.json"
    path.write_text(report.as_json(rows, _run(options)))
    print(f"Kept in {path}")


def _have_peers() -> None:
    """Fetch them now, or say at once what is missing rather than after the first minutes."""
    try:
        from benchmarks import kafka_peer, spark_peer

        print("==> Kafka (fetched once)", file=sys.stderr, flush=True)
        kafka_peer.fetch()
        kafka_peer.java()
        spark_peer.fetch()
    except ModuleNotFoundError as error:
        sys.exit(f"The peers need the package {error.name}: install `confluent-kafka`.")
    except servers.PeerMissing as missing:
        sys.exit(str(missing))


def _run(options: argparse.Namespace) -> dict[str, object]:
    """What a reader of the JSON must know to compare it with another."""
    return {
        "quick": options.quick,
        "peers": options.peers,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "penstock": penstock.__version__,
    }


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure Penstock beside its yardsticks."
    )
    parser.add_argument("--quick", action="store_true", help="a short run: does it all work?")
    parser.add_argument(
        "--only",
        action="append",
        choices=list(QUESTIONS),
        metavar="QUESTION",
        help=f"ask only this one (may be repeated): {', '.join(QUESTIONS)}",
    )
    parser.add_argument("--peers", action="store_true", help="also measure the peers beside ours")
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        help="the folder for the JSON (default: %(default)s)",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
