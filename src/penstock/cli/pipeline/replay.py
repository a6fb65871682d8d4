"""`penstock pipeline replay`: an archive, or a part of a topic, to a topic again."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from penstock.cli.output import INTERRUPTED, note, progress, show_json
from penstock.cli.pipeline.common import MASTER_DEFAULT, Debug, Master, Stopping, one_sentence
from penstock.cli.quantities import duration_ms, moment_ms
from penstock.cli.runtime import DEFAULT_BOOTSTRAP, Bootstrap, Json
from penstock.model.errors import InvalidRequest
from penstock.model.ids import check_topic_name

if TYPE_CHECKING:
    from penstock.spark.pipeline.replay import ReplayOptions
    from penstock.spark.pipeline.running.run import SparkPlace

# The folder that every archive has in it.
_ARCHIVE_MARK: Final = "_penstock"
_RATE: Final = re.compile(r"(?P<count>\d+(?:\.\d+)?)(?:/(?P<unit>s|sec|m|min|h))?")
_UNITS_S: Final = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_OFFSETS: Final = re.compile(r"(?P<partition>\d+):(?P<start>\d*)-(?P<end>\d*)")


From = Annotated[
    str, typer.Option("--from", metavar="DIR|TOPIC", help="An archive's folder, or a topic.")
]
To = Annotated[str, typer.Option(metavar="TOPIC", help="Where the messages go.")]
FromTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="From then on: 2026-01-31T12:00:00 (this machine's time zone; with Z or +02:00 that "
        "one), or 10m-ago.",
    ),
]
ToTime = Annotated[
    str | None, typer.Option(metavar="TIME", help="Before then, in the same notation.")
]
Offsets = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PARTITION:START-END",
        help="These offsets, without the END; either may be left out. Repeatable.",
    ),
]
Where = Annotated[
    str | None, typer.Option(metavar="SQL", help="Only messages for which this is true.")
]
Rate = Annotated[
    str | None, typer.Option(metavar="N/s", help="At most so many a second (or /min, /h).")
]
ShiftTime = Annotated[
    str | None,
    typer.Option(metavar="now|±TIME", help="Move timestamps: the first to now, or all by so much."),
]
KeepPartition = Annotated[
    bool, typer.Option("--keep-partition", help="Write to the partitions they had.")
]
Checkpoint = Annotated[
    str | None, typer.Option(metavar="DIR", help="Where a restart goes on from.")
]


def replay(
    *,
    from_: From,
    to: To,
    from_time: FromTime = None,
    to_time: ToTime = None,
    offsets: Offsets = None,
    where: Where = None,
    rate: Rate = None,
    shift_time: ShiftTime = None,
    keep_partition: KeepPartition = False,
    checkpoint: Checkpoint = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = MASTER_DEFAULT,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write messages of an archive or a topic to a topic again, in the order of their times.

    Each exactly once; with --checkpoint also over restarts, at another --rate if need be. Keys,
    values and headers stay as they are. --where sees key, value, topic, partition, offset,
    timestamp, timestampType and headers; times in it are UTC.

    \b
    Examples:
      penstock pipeline replay --from archive --to orders-again --rate 1000/s --shift-time now
      penstock pipeline replay --from orders --to test --from-time 1h-ago --where "key = 'alice'"
      penstock pipeline replay --from orders --to test --offsets 0:100-200 --checkpoint replay-1
    """
    with one_sentence(is_debug=debug):
        is_folder = _is_folder(from_, to)
        source = os.path.abspath(from_) if is_folder else from_
        now_ms = time.time_ns() // 1_000_000
        from penstock.spark.pipeline.replay import ReplayOptions
        from penstock.spark.pipeline.running.run import SparkPlace

        options = ReplayOptions(
            source=source,
            is_folder=is_folder,
            bootstrap=bootstrap,
            topic=check_topic_name(to),
            from_ms=None if from_time is None else moment_ms(from_time, now_ms),
            to_ms=None if to_time is None else moment_ms(to_time, now_ms),
            offsets=parse_offsets(offsets) if offsets else None,
            where=where,
            rows_per_s=None if rate is None else parse_rate(rate),
            shift=None if shift_time is None else parse_shift(shift_time),
            keep_partition=keep_partition,
            checkpoint=checkpoint,
            request={
                "--bootstrap": bootstrap,
                "--from": source,
                "--to": to,
                "--from-time": from_time,
                "--to-time": to_time,
                "--offsets": ",".join(offsets) if offsets else None,
                "--where": where,
                "--shift-time": shift_time,
                "--keep-partition": str(keep_partition),
            },
        )
        is_done = _run(options, SparkPlace(master=master, is_debug=debug), as_json=as_json)
    if not is_done:
        raise typer.Exit(INTERRUPTED)


def _is_folder(source: str, to: str) -> bool:
    """Whether the source is an archive and not a topic. What has a slash is never a topic; a bare
    name is a folder only if an archive is there, as topics are named like folders too."""
    if os.sep in source:
        if not os.path.isdir(source):
            raise InvalidRequest(
                f"There is no folder {source}: --from takes an archive or a topic."
            )
        return True
    if os.path.isdir(os.path.join(source, _ARCHIVE_MARK)):
        return True
    if check_topic_name(source) == to:
        raise InvalidRequest(f"{to} would be written to itself: give another topic with --to.")
    return False


def _run(options: ReplayOptions, place: SparkPlace, *, as_json: bool) -> bool:
    """Whether all of it was written; tells how much was."""
    from penstock.spark.pipeline.replay import replay as run_replay

    stopping = Stopping()
    began_s = time.monotonic()
    with stopping.on_signals(), progress(1.0, shown=not as_json) as tell:

        def told(done: int, total: int) -> None:
            tell(done / total if total else 1.0, f"{done:,} of {total:,} messages")

        is_done, rows = run_replay(options, place, told, lambda: stopping.is_asked)
    took_s = round(time.monotonic() - began_s, 1)
    if as_json:
        show_json({"messages": rows, "complete": is_done, "seconds": took_s})
    else:
        rest = "" if is_done else "; the rest is still to come"
        note(f"{rows} messages written to {options.topic} in {took_s} s{rest}.")
    return is_done


def parse_rate(text: str) -> float:
    """`1000/s`, `90/min`, or `1000`: messages a second."""
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found["count"]) <= 0:
        raise InvalidRequest(f"{text!r} is no rate: write it as 1000/s or 90/min.")
    return float(found["count"]) / _UNITS_S[found["unit"] or "s"]


def parse_shift(text: str) -> int | Literal["now"]:
    """`now`, `+1h`, `-7d`: milliseconds."""
    if text == "now":
        return "now"
    return duration_ms(text.removeprefix("+"))


def parse_offsets(texts: Sequence[str]) -> dict[int, tuple[int, int | None]]:
    """`0:100-200`, `1:50-`, `2:-10`: by partition, from an offset up to another."""
    ranges: dict[int, tuple[int, int | None]] = {}
    for text in ",".join(texts).split(","):
        found = _OFFSETS.fullmatch(text.strip())
        if found is None:
            raise InvalidRequest(f"{text!r} are no offsets: write them as 0:100-200 or 0:100-.")
        start, end = int(found["start"] or 0), int(found["end"]) if found["end"] else None
        if int(found["partition"]) in ranges:
            raise InvalidRequest(f"Partition {found['partition']} is given twice in --offsets.")
        if end is not None and end <= start:
            raise InvalidRequest(f"{text!r} is empty: its end is not behind its start.")
        ranges[int(found["partition"])] = (start, end)
    return ranges
