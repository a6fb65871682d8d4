"""`penstock pipeline archive`: topics to Parquet, exactly once."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.output import INTERRUPTED
from penstock.cli.pipeline.common import MASTER_DEFAULT, Debug, Master, one_sentence
from penstock.cli.quantities import duration_ms, size_bytes
from penstock.cli.runtime import DEFAULT_BOOTSTRAP, Bootstrap, Json
from penstock.model.errors import InvalidRequest

Topics = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="What to archive.")]
To = Annotated[str, typer.Option(metavar="DIR", help="The folder; it is made if it is not there.")]
Every = Annotated[str, typer.Option(metavar="TIME", help="How often to add what came, as in 30s.")]
Once = Annotated[bool, typer.Option("--once", help="Archive what is there now, and end.")]
TargetBytes = Annotated[str, typer.Option(metavar="SIZE", help="What small files are merged to.")]
AllowLoss = Annotated[
    bool, typer.Option("--allow-loss", help="Go on after messages that were removed too soon.")
]


def archive(
    topics: Topics,
    *,
    to: To,
    every: Every = "1m",
    once: Once = False,
    target_file_bytes: TargetBytes = "128MiB",
    allow_loss: AllowLoss = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = MASTER_DEFAULT,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Keep topics as Parquet files, by topic and date.

    Whatever reads DIR (Spark, Arrow, DuckDB) finds each message exactly once, also while this
    runs, is killed, or merges small files. Run again, it goes on where it stopped.

    \b
    Examples:
      penstock pipeline archive orders payments --to archive
      penstock pipeline archive orders --to archive --once
      penstock pipeline archive orders --to archive --every 5m --target-file-bytes 512MiB
    """
    with one_sentence(is_debug=debug):
        interval_ms, target_bytes = duration_ms(every), size_bytes(target_file_bytes)
        if interval_ms <= 0 or target_bytes <= 0:
            raise InvalidRequest("--every and --target-file-bytes must be more than nothing.")
        from penstock.cli.pipeline.output import PipelineOutput
        from penstock.spark.pipeline.archive import ArchiveOptions
        from penstock.spark.pipeline.archive import archive as run_archive
        from penstock.spark.pipeline.declared.spec import Trigger
        from penstock.spark.pipeline.running.run import SparkPlace

        trigger = Trigger(kind="interval", interval_ms=interval_ms)
        options = ArchiveOptions(
            topics=topics,
            folder=to,
            bootstrap=bootstrap,
            trigger=Trigger(kind="available-now") if once else trigger,
            target_bytes=target_bytes,
            is_loss_allowed=allow_loss,
        )
        output = PipelineOutput(f"archive to {to}", as_json=as_json)
        with output.shown(is_stream=True):
            is_done = run_archive(options, SparkPlace(master=master, is_debug=debug), output)
    if once and not is_done:
        raise typer.Exit(INTERRUPTED)
