"""A tail torn at every byte, and a bit flipped in every byte of a small data folder.

The checker: damage is reported with its file and position, what is left is served exactly as it was
written, and nothing that was flushed is cut.
"""

from __future__ import annotations

import logging
import random

import pytest

from penstock.model.errors import BatchError, CorruptLog
from penstock.records import decode_messages
from penstock.storage.files.journal import read_journal, write_journal
from penstock.storage.log.log import CleanEnd, Log
from penstock.storage.log.verify import verify
from penstock.storage.segments.segment import rebuild_index
from tests.kit.simulated_disk import SECTOR_BYTES, SimulatedDisk
from tests.kit.storage.logs import (
    CONFIG,
    NOW_MS,
    append,
    flush,
    make_batch,
    open_log,
    read_all,
    stage,
)

ACTIVE = "00000000000000000000.open.log"
Messages = list[tuple[int, bytes | None]]


def whole_log(last: bytes) -> tuple[SimulatedDisk, int]:
    """A log of three batches and the given one; the position where that begins."""
    disk = SimulatedDisk()
    log = open_log(disk.root)
    append(log, *(make_batch(b"%d" % number) for number in range(3)))
    position = log.size_bytes
    append(log, last)
    log.close()
    return disk, position


LAST = make_batch(b"x" * 400, records=3)
BASE, LAST_POSITION = whole_log(LAST)
CUTS = range(1, len(LAST))
ZEROS_FROM = [0, *(cut for cut in CUTS if (LAST_POSITION + cut) % SECTOR_BYTES == 0)]


def check_torn(cut: int, zeros: bool, caplog: pytest.LogCaptureFixture) -> None:
    disk = BASE.after_crash("kept")
    file = disk.root.open(ACTIVE)
    file.truncate(LAST_POSITION + cut)
    if zeros:
        file.append([bytes(len(LAST) - cut)])
    torn_bytes = file.size() - LAST_POSITION
    caplog.clear()
    log = open_log(disk.root)
    assert log.next_offset == 3, cut
    (record,) = caplog.records
    assert ACTIVE in record.getMessage()
    assert f"position {LAST_POSITION} " in record.getMessage()
    assert f"{torn_bytes} bytes cut" in record.getMessage()
    assert append(log, LAST) == [3]
    assert [header.base_offset for header, _ in read_all(log)] == [0, 1, 2, 3], cut


def test_a_tail_torn_at_any_byte_is_cut_at_the_last_whole_batch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R-STO-6."""
    for cut in CUTS:
        check_torn(cut, False, caplog)


def test_zeros_instead_of_a_tail_are_cut_at_the_last_whole_batch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R-STO-6: the file has its new size, but from some sector on its bytes never arrived."""
    for cut in ZEROS_FROM:
        check_torn(cut, True, caplog)


class Folder:
    """Two sealed segments, an active one and a journal, closed in order; terms 0, 1 and 2."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        log = open_log(self.disk.root, CONFIG)
        for number in range(12):
            stage(log, make_batch(b"value %d" % number * 6, records=1 + number % 2), number // 4)
            log.writer.write_staged(NOW_MS)
            if number in (3, 7):
                log.writer.roll()
            flush(log)
        self.messages = messages_of(log)
        self.next_offset = log.next_offset
        self.last_batch_position = log.segments()[-1].size_bytes - read_all(log)[-1][0].length
        clean_end = log.close()
        assert clean_end is not None
        self.clean_end: CleanEnd = clean_end
        write_journal(self.disk.root, "facts.journal", b"what must not be forgotten")
        assert not [finding for finding in verify(self.disk.root) if finding.problem]

    def damaged(self, name: str, position: int, bit: int) -> SimulatedDisk:
        disk = self.disk.after_crash("kept")
        disk.flip_bit(name, position, bit)
        return disk


def messages_of(log: Log) -> Messages:
    found: Messages = []
    for _, batch in read_all(log):
        found += [(message.offset, message.value) for message in decode_messages(batch, "", 0, 0)]
    return found


FOLDER = Folder()
LOGS = sorted(name for name in FOLDER.disk.files() if name.endswith(".log"))
INDEXES = sorted(name for name in FOLDER.disk.files() if name.endswith((".index", ".time")))


def flips(name: str) -> list[tuple[int, int]]:
    """A bit of every byte, and some more."""
    size = len(FOLDER.disk.files()[name])
    chance = random.Random(name)
    every_byte = [(position, position % 8) for position in range(size)]
    return every_byte + [(chance.randrange(size), chance.randrange(8)) for _ in range(50)]


def test_the_folder_has_all_kinds_of_files() -> None:
    assert len(LOGS) == 3
    assert len(INDEXES) == 6


@pytest.mark.parametrize("name", [*LOGS, *INDEXES, "facts.journal"])
def test_verify_reports_every_flipped_bit(name: str) -> None:
    """R-STO-1: each byte on disk is covered by a checksum or by its neighbours."""
    for position, bit in flips(name):
        disk = FOLDER.damaged(name, position, bit)
        problems = {finding.path: finding for finding in verify(disk.root) if finding.problem}
        finding = problems.get(f"disk/{name}")
        assert finding is not None, (name, position, bit, problems)
        assert finding.position is not None
        # The batch, the header or the body that the bit is in; a term only shows in the next one.
        assert finding.position <= position + 200, (position, finding)


@pytest.mark.parametrize("name", LOGS)
def test_a_flipped_bit_in_a_log_is_never_served_as_data(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R-STO-6: reading what an orderly shutdown left, every message is as it was or refused."""
    for position, bit in flips(name):
        disk = FOLDER.damaged(name, position, bit)
        log = Log.open(disk.root, CONFIG, clean_end=FOLDER.clean_end)
        try:
            assert messages_of(log) == FOLDER.messages, (name, position, bit)
        except CorruptLog as error:
            assert f"{name} is damaged at position" in str(error)  # noqa: PT017
        except BatchError:
            # Slices are sent unread: this is the consumer's check, the last line.
            continue


def test_a_flipped_bit_in_an_unsealed_log_is_reported_when_it_is_opened(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R-STO-6: after a crash the unsealed segment is read. Flushed data that decayed is refused,
    not cut; only a length that points beyond the end looks like a tear, and that is reported."""
    name = LOGS[-1]
    caplog.set_level(logging.WARNING)
    term = range(FOLDER.last_batch_position + 12, FOLDER.last_batch_position + 16)
    for position, bit in flips(name):
        disk = FOLDER.damaged(name, position, bit)
        before = disk.files()[name]
        caplog.clear()
        try:
            log = open_log(disk.root)
        except CorruptLog as error:
            assert f"{name} is damaged at position" in str(error)  # noqa: PT017
            assert disk.files()[name] == before
            continue
        if log.next_offset == FOLDER.next_offset:
            # Nothing can contradict a higher term in the very last batch but its index.
            assert position in term, position
        else:
            assert FOLDER.last_batch_position + 8 <= position < FOLDER.last_batch_position + 12
            assert f"{name} was torn by a crash" in caplog.text
        assert messages_of(log) == FOLDER.messages[: log.next_offset]


@pytest.mark.parametrize("name", INDEXES)
def test_a_flipped_bit_in_an_index_is_reported_and_the_index_made_again(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R-STO-2: an index is never trusted."""
    for position, bit in flips(name):
        disk = FOLDER.damaged(name, position, bit)
        caplog.clear()
        log = Log.open(disk.root, CONFIG, clean_end=FOLDER.clean_end)
        for segment in log.chain.segments:
            assert segment.index.positions == rebuild_index(segment).positions
        assert f"{name} cannot be used, from position" in caplog.text
        assert messages_of(log) == FOLDER.messages
        assert disk.files()[name] == FOLDER.disk.files()[name]


def test_a_flipped_bit_in_a_journal_is_an_error() -> None:
    name = "facts.journal"
    for position, bit in flips(name):
        disk = FOLDER.damaged(name, position, bit)
        with pytest.raises(CorruptLog, match=r"facts\.journal is damaged at position"):
            read_journal(disk.root, name)
