"""Merges small Parquet files of a table's folders, so that readers open few and large ones.

Merged files and links to the others are put together in a new folder beside the table, which then
changes places with the old one at once (exchange.py), where the file system can do that. This one
step is the decision: killed before it, the new folder is thrown away; after it, the old one is. The
invariant: whoever reads the table at whatever moment finds each row once.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.limits import MIB
from penstock.spark.pipeline.tables.durable_files import sync_file, sync_folder
from penstock.spark.pipeline.tables.exchange import CannotExchange, check_exchange, exchange
from penstock.spark.pipeline.tables.table import ParquetTable

logger = logging.getLogger(__name__)

# A folder that still grows is merged when it has so many small files, and not at each new one:
# what was merged once and is still small is read and written again.
OPEN_FOLDER_FILES_MAX: Final = 32
# Late rows come to a closed one with every batch, as long as the archive runs.
CLOSED_FOLDER_FILES_MAX: Final = 8
# Rows of a row group: enough for columns to compress well, few enough to skip the others' values.
_GROUP_ROWS: Final = 100_000
_GROUP_BYTES: Final = 64 * MIB
_DATE: Final = "date="


class DataFile(NamedTuple):
    """A Parquet file of a folder."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What a compaction has done."""

    folders: int = 0
    files_before: int = 0
    files_after: int = 0


def choose(files: Sequence[DataFile], *, files_min: int, target_bytes: int) -> list[list[DataFile]]:
    """Which files become one, in groups; pure. None, if fewer are small; a file of half the target
    is large enough."""
    small = sorted(each for each in files if each.size_bytes < target_bytes // 2)
    if len(small) < files_min:
        return []
    groups: list[list[DataFile]] = [[]]
    for each in small:
        if (
            groups[-1]
            and sum(one.size_bytes for one in groups[-1]) + each.size_bytes > target_bytes
        ):
            groups.append([])
        groups[-1].append(each)
    return [group for group in groups if len(group) > 1]


class Compactor:
    """Merges files of one table, as far as its file system can do what that takes."""

    def __init__(self, table: ParquetTable, target_bytes: int) -> None:
        self._table = table
        self._target_bytes = target_bytes
        self._is_able: bool | None = None

    def compact(self, topic_folder: str, today: str, *, is_ending: bool) -> Merged:
        """Merge what is worth merging in the dates of one topic. A date before today is closed;
        late rows open it again. is_ending: nothing more is written for now."""
        folder = os.path.join(self._table.folder, topic_folder)
        merged = Merged()
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if not name.startswith(_DATE):
                continue
            place = os.path.join(folder, name)
            is_closed = name.removeprefix(_DATE) < today
            groups = choose(
                _data_files(place),
                files_min=_files_min(is_closed=is_closed, is_ending=is_ending),
                target_bytes=self._target_bytes,
            )
            if not groups or not self._merge(place, groups):
                continue
            merged = Merged(
                folders=merged.folders + 1,
                files_before=merged.files_before + sum(len(group) for group in groups),
                files_after=merged.files_after + len(groups),
            )
        return merged

    def _merge(self, place: str, groups: Sequence[Sequence[DataFile]]) -> bool:
        """Whether it was done."""
        try:
            if self._is_able is None:
                self._try()
            if self._is_able:
                _merge_folder(self._table, place, groups)
        except CannotExchange:
            logger.warning(
                "Small files stay as they are: the file system of %s cannot exchange two folders "
                "at once, or link files.",
                self._table.folder,
            )
            self._is_able = False
        return self._is_able is True

    def _try(self) -> None:
        """Before hours of merging that would come to nothing."""
        room = self._table.room()
        try:
            check_exchange(room)
        finally:
            shutil.rmtree(room, ignore_errors=True)
        self._is_able = True


def _files_min(*, is_closed: bool, is_ending: bool) -> int:
    if not is_closed:
        return OPEN_FOLDER_FILES_MAX
    return 2 if is_ending else CLOSED_FOLDER_FILES_MAX


def _merge_folder(table: ParquetTable, place: str, groups: Sequence[Sequence[DataFile]]) -> None:
    room = table.room()
    try:
        new = os.path.join(room, os.path.basename(place))
        os.mkdir(new)
        gone = {each.name for group in groups for each in group}
        for group in groups:
            paths = [os.path.join(place, each.name) for each in group]
            merge_files(paths, os.path.join(new, f"merged-{uuid4().hex}.parquet"))
        for name in os.listdir(place):
            # Links, not copies: the files are the same, and never changed.
            if name not in gone and name.endswith(".parquet"):
                os.link(os.path.join(place, name), os.path.join(new, name))
        sync_folder(new)
        exchange(new, place)
        sync_folder(os.path.dirname(place))
    finally:
        shutil.rmtree(room, ignore_errors=True)


def merge_files(paths: Sequence[str], target: str) -> None:
    """One file with the rows of all, in this order, on the disk. All have one schema."""
    schema = pq.read_schema(paths[0])
    expected = sum(pq.read_metadata(path).num_rows for path in paths)
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = written = 0
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for path in paths:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches():
                    waiting.append(batch)
                    rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
                    if rows >= _GROUP_ROWS or size_bytes >= _GROUP_BYTES:
                        written += _write_group(writer, waiting, schema)
                        rows = size_bytes = 0
        written += _write_group(writer, waiting, schema)
    assert written == expected == pq.read_metadata(target).num_rows, (written, expected)
    sync_file(target)


def _write_group(writer: pq.ParquetWriter, waiting: list[pa.RecordBatch], schema: pa.Schema) -> int:
    if not waiting:
        return 0
    group = pa.Table.from_batches(waiting).cast(schema)
    writer.write_table(group, row_group_size=max(group.num_rows, 1))
    waiting.clear()
    return int(group.num_rows)


def _data_files(folder: str) -> list[DataFile]:
    with os.scandir(folder) as entries:
        return [
            DataFile(entry.name, entry.stat().st_size)
            for entry in entries
            if entry.name.endswith(".parquet") and entry.name[0] not in "_."
        ]
