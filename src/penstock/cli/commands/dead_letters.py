"""`penstock dead-letters`: groups, list, show, redrive, drop."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.message_json import content_json, header_json
from penstock.cli.output import FAILED, Row, note, progress, say, show_json, show_rows, show_table
from penstock.cli.quantities import moment_ms, moment_text
from penstock.cli.runtime import DEFAULT_BOOTSTRAP, Bootstrap, Json, run_with_client, with_client
from penstock.model.errors import InvalidRequest

if TYPE_CHECKING:
    from penstock.client.admin.dead_letters import LetterFilters
    from penstock.client.admin.redriving import LetterOutcome, LetterSummary, OnOutcome
    from penstock.client.client import Client
    from penstock.model.dead_letter import DeadLetter

app = typer.Typer(
    help="See messages that a group could not deal with, put them back, or drop them.",
    no_args_is_help=True,
)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="Whose dead letters.")]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Which, as `list` shows them; none: see the filters."),
]
Topic = Annotated[str | None, typer.Option(metavar="TOPIC", help="Only those that were there.")]
Reason = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only those with this in their reason.")
]
Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only those that died since, as 1h or 2026-01-31T12:00."),
]
Until = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only those that died before this time.")
]
Key = Annotated[str | None, typer.Option(metavar="TEXT", help="Only those with this key.")]
Limit = Annotated[
    int | None, typer.Option(min=1, metavar="COUNT", help="So many at most, the oldest.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing: say what would be done.")]

# In a table a reason is cut; `show` and --json have all of it.
_REASON_SHOWN = 60


@app.command()
@with_client
async def groups(mq: Client, as_json: Json = False) -> None:
    """List the groups that have dead letters.

    \b
    Examples:
      penstock dead-letters groups
    """
    rows: list[Row] = [
        {
            "group": one.group,
            "letters": one.count,
            "oldest": _moment(one.oldest_at_ms),
            "newest": _moment(one.newest_at_ms),
            "kept_in": one.topic,
        }
        for one in await mq.dead_letters.groups()
    ]
    show_rows(rows, as_json=as_json, empty="No group has dead letters.")


@app.command("list")
def list_(
    group: Group,
    *,
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    key: Key = None,
    limit: Limit = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """List a group's dead letters, oldest first.

    \b
    Examples:
      penstock dead-letters list workers
      penstock dead-letters list workers --reason timeout --since 1h
      penstock dead-letters list workers --json | jq .id
    """
    filters = _filters(topic, reason, since, until, key, limit)

    async def work(mq: Client) -> None:
        if as_json:  # a line each: there may be more than fit in memory
            async for letter in mq.dead_letters.list(group, **filters):
                show_json(_letter_json(letter))
            return
        rows = [_letter_row(letter) async for letter in mq.dead_letters.list(group, **filters)]
        if rows:
            show_table(rows)
        else:
            note(
                f"Group {group} has no such dead letters: `penstock dead-letters groups` shows who "
                "has some."
            )

    run_with_client(bootstrap, work)


@app.command()
@with_client
async def show(
    mq: Client,
    group: Group,
    letter_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
    as_json: Json = False,
) -> None:
    """Show one dead letter: why it is dead, where it was, its key, value and headers.

    \b
    Examples:
      penstock dead-letters show workers jobs/0/1024
    """
    letter = await mq.dead_letters.show(group, letter_id)
    if as_json:
        show_json(_letter_json(letter))
        return
    facts = {
        "id": letter.id,
        "group": letter.group,
        "reason": _plain(letter.reason) or "none given",
        "attempts": str(letter.attempts),
        "redrives": str(letter.redrives),
        "died": _moment(letter.dead_at_ms),
        "published": _moment(letter.timestamp_ms),
        "key": _text(letter.key),
        "value": _text(letter.value),
        **{f"header {_plain(name)}": _text(value) for name, value in letter.headers},
    }
    width = max(map(len, facts))
    for name, fact in facts.items():
        say(fact, sign=name.ljust(width))


@app.command()
def redrive(
    group: Group,
    ids: Ids = None,
    *,
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    key: Key = None,
    limit: Limit = None,
    rate: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="So many messages a second at most.")
    ] = None,
    to_topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="There, instead of where each was.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also those that were redriven twice already.")
    ] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Publish dead letters to their topics again: all, or those named, or those of the filters.

    A letter is gone when its message was acknowledged. If this is interrupted, some messages may
    be published twice when it is run again. A message that was redriven twice and died again is
    left alone without --force. Ends with exit code 1 if some could not be redriven.

    \b
    Examples:
      penstock dead-letters redrive workers --dry-run
      penstock dead-letters redrive workers --reason timeout --rate 100
      penstock dead-letters redrive workers jobs/0/1024 --force
    """
    filters = _filters(topic, reason, since, until, key, limit)
    _run(
        bootstrap,
        lambda mq, on_outcome: mq.dead_letters.redrive(
            group,
            ids or None,
            dry_run=dry_run,
            force=force,
            rate_per_s=rate,
            to_topic=to_topic,
            on_outcome=on_outcome,
            **filters,
        ),
        as_json=as_json,
    )


@app.command()
def drop(
    group: Group,
    ids: Ids = None,
    *,
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    key: Key = None,
    limit: Limit = None,
    everything: Annotated[bool, typer.Option("--all", help="All of the group's.")] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Forget dead letters for ever: those named, those of the filters, or --all.

    \b
    Examples:
      penstock dead-letters drop workers jobs/0/1024 jobs/0/1025
      penstock dead-letters drop workers --until 2026-01-31 --dry-run
      penstock dead-letters drop workers --all
    """
    filters = _filters(topic, reason, since, until, key, limit)
    if not ids and not everything and all(one is None for one in filters.values()):
        raise InvalidRequest(
            "Nothing says which dead letters to drop: name them, give filters, or --all."
        )
    _run(
        bootstrap,
        lambda mq, on_outcome: mq.dead_letters.drop(
            group,
            ids or None,
            everything=everything,
            dry_run=dry_run,
            on_outcome=on_outcome,
            **filters,
        ),
        as_json=as_json,
    )


def _run(
    bootstrap: str,
    change: Callable[[Client, OnOutcome], Coroutine[object, object, LetterSummary]],
    *,
    as_json: bool,
) -> None:
    with progress(None) as advance:
        done = 0

        def on_outcome(_one: LetterOutcome) -> None:
            nonlocal done
            done += 1
            advance(done, f"{done:,} letters")

        summary = run_with_client(bootstrap, lambda mq: change(mq, on_outcome))
    _report(summary, as_json=as_json)
    if summary.failed or summary.guarded or summary.missing:
        raise typer.Exit(FAILED)


def _report(summary: LetterSummary, *, as_json: bool) -> None:
    problems = [
        {"id": one.letter.id, "outcome": one.outcome, "problem": one.problem}
        for one in summary.problems
    ]
    counts = {name: getattr(summary, name) for name in ("redriven", "dropped", "guarded", "failed")}
    if as_json:
        show_json(
            {
                "dry_run": summary.is_dry_run,
                **counts,
                "missing": summary.missing,
                "problems": problems,
            }
        )
        return
    if problems:
        show_table(problems)
    unshown = summary.failed + summary.guarded - len(problems)
    if unshown:
        note(f"{unshown:,} more are not shown.")
    for letter_id in summary.missing:
        note(f"There is no dead letter {letter_id}.")
    would = "would be " if summary.is_dry_run else ""
    texts = {
        "redriven": f"{would}redriven",
        "dropped": f"{would}dropped",
        "guarded": "left alone (redriven twice already: --force)",
        "failed": "failed",
    }
    said = [f"{counts[name]:,} {text}" for name, text in texts.items() if counts[name]]
    note(", ".join(said) if said else "There are no such dead letters: nothing to do.")


def _filters(
    topic: str | None,
    reason: str | None,
    since: str | None,
    until: str | None,
    key: str | None,
    limit: int | None,
) -> LetterFilters:
    return {
        "topic": topic,
        "reason": reason,
        "since": _parse_moment(since),
        "until": _parse_moment(until),
        "key": key.encode() if key is not None else None,
        "limit": limit,
    }


def _parse_moment(text: str | None) -> datetime | None:
    """`1h` is an hour ago, as `1h-ago` is."""
    if text is None:
        return None
    now_ms = time.time_ns() // 1_000_000
    is_length = text[-1:] in "smhd" and not text.endswith("-ago") and text[:1].isdigit()
    return datetime.fromtimestamp(
        moment_ms(f"{text}-ago" if is_length else text, now_ms) / 1000, UTC
    )


def _letter_row(letter: DeadLetter) -> Row:
    reason = _plain(letter.reason)
    if len(reason) > _REASON_SHOWN:
        reason = f"{reason[: _REASON_SHOWN - 1]}…"
    return {
        "id": letter.id,
        "died": _moment(letter.dead_at_ms),
        "attempts": letter.attempts,
        "redrives": letter.redrives,
        "key": None if letter.key is None else _text(letter.key),
        "reason": reason,
    }


def _letter_json(letter: DeadLetter) -> Row:
    return {
        "id": letter.id,
        "group": letter.group,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "redrives": letter.redrives,
        "dead_at_ms": letter.dead_at_ms,
        **content_json("key", letter.key),
        **content_json("value", letter.value),
        "headers": header_json(letter.headers),
    }


def _moment(at_ms: int | None) -> str:
    return "-" if at_ms is None else moment_text(at_ms)


def _text(content: bytes | None) -> str:
    """What is no text, as Python writes it."""
    if content is None:
        return "-"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return repr(content)
    return text if text.isprintable() else repr(text)


def _plain(text: str) -> str:
    """Nothing that a stranger wrote moves the cursor of a terminal, or ends a line of a table."""
    return "".join(one if one.isprintable() else " " for one in text)
