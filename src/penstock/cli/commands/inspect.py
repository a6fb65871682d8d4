"""`penstock inspect`: what is in a data folder, checked byte by byte, without a broker.

It only reads. Exit code 1 if anything is damaged, so that a script can rely on it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.message_json import message_json
from penstock.cli.output import FAILED, note, say, show_json, show_table
from penstock.cli.quantities import moment_text, size_text
from penstock.cli.runtime import Json
from penstock.model.errors import InvalidRequest
from penstock.model.limits import DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    from penstock.records import Message
    from penstock.storage.log.verify import Finding

_LOG_SUFFIX: Final = ".log"


def inspect(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", exists=True, help="A data folder, a folder inside it, or one file."
        ),
    ],
    records: Annotated[
        bool, typer.Option("--records", help="Write the messages instead of a table.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check files of a broker and show what they hold.

    Every byte of every log, index and journal is read and checked; nothing is changed. No broker
    is needed. While one runs, the file that it writes may look torn at its end. Offsets that
    compaction took out are counted; where the folder has no compaction.journal, a missing offset is
    damage. Exit code 1 if something is damaged.

    \b
    Examples:
      penstock inspect penstock-data
      penstock inspect penstock-data/topics/orders --json
      penstock inspect penstock-data/topics/orders/0/00000000000000000000.open.log --records
    """
    findings = []
    for finding in _findings(path):
        findings.append(finding)
        if records:
            _show_records(finding, as_json=as_json)
    if not findings:
        raise InvalidRequest(f"There is no file of a broker in {path}: is it a data folder?")
    if not records:
        if as_json:
            show_json([asdict(finding) for finding in findings])
        else:
            _show_findings(path, findings)
    damaged = [finding for finding in findings if finding.problem is not None]
    for finding in damaged:
        note(f"{finding.path}, position {finding.position}: {finding.problem}")
    if damaged:
        raise typer.Exit(FAILED)


def _findings(path: Path) -> Iterator[Finding]:
    from penstock.storage.files.os_files import OsDirectory
    from penstock.storage.log.verify import verify

    if path.is_file():
        in_folder = verify(OsDirectory(str(path.parent)))
        yield from (finding for finding in in_folder if Path(finding.path).name == path.name)
        return
    for folder in sorted([path, *(each for each in path.rglob("*") if each.is_dir())]):
        yield from verify(OsDirectory(str(folder)))


def _show_findings(path: Path, findings: Iterable[Finding]) -> None:
    """A table of the logs and of whatever is damaged, and one line about all."""
    findings = list(findings)
    base = path if path.is_dir() else path.parent
    rows = [
        {
            "file": str(Path(finding.path).relative_to(base)),
            "batches": finding.batches,
            "records": finding.records,
            "bytes": finding.size_bytes,
            "first": finding.first_offset if finding.records else None,
            "last": finding.last_offset if finding.records else None,
            "state": _state(finding),
        }
        for finding in findings
        if finding.path.endswith(_LOG_SUFFIX) or finding.problem is not None
    ]
    if rows:
        show_table(rows)
    damaged = sum(finding.problem is not None for finding in findings)
    say(
        f"{len(findings)} files, {sum(finding.records for finding in findings)} records, "
        f"{size_text(sum(finding.size_bytes for finding in findings))}: "
        + (f"{damaged} damaged" if damaged else "all sound")
    )


def _state(finding: Finding) -> str:
    if finding.problem is not None:
        return "damaged"
    return f"sound, {finding.gaps} gaps" if finding.gaps else "sound"


def _show_records(finding: Finding, *, as_json: bool) -> None:
    """The messages of a log file, up to where it is damaged."""
    path = Path(finding.path)
    if path.suffix != _LOG_SUFFIX:
        return
    for message in _messages(path, finding):
        shown = {
            **message_json(message),
            "topic": path.parent.parent.name,
            "partition": int(path.parent.name) if path.parent.name.isdigit() else None,
        }
        if as_json:
            line = json.dumps(shown, ensure_ascii=False)
        else:
            key, value = _text(message.key), _text(message.value)
            line = f"{message.offset}\t{moment_text(message.timestamp_ms)}\t{key}\t{value}"
        sys.stdout.write(line + "\n")


def _messages(path: Path, finding: Finding) -> Iterator[Message]:
    from penstock.records import decode_batch
    from penstock.records.header import check_batch
    from penstock.storage.files.os_files import OsDirectory
    from penstock.storage.segments.scan import SCAN_CHUNK_BYTES, walk

    file = OsDirectory(str(path.parent)).open(path.name)
    end = finding.size_bytes if finding.position is None else finding.position
    for position, header in walk(file, 0, end, None, SCAN_CHUNK_BYTES):
        batch = memoryview(file.read_at(position, header.length))
        check_batch(batch)
        yield from decode_batch(header, batch, DECOMPRESSED_BYTES_MAX)
    file.close()


def _text(content: bytes | None) -> str:
    """Bytes in one line of a terminal, whatever they are."""
    if content is None:
        return "-"
    text = content.decode(errors="backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()
