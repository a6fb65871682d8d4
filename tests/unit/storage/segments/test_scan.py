"""Going through a log file: what is a batch, what is a tear, what is decay."""

from __future__ import annotations

import pytest

from penstock.model.errors import CorruptLog
from penstock.model.limits import BATCH_BYTES_MAX
from penstock.records.header import stamp
from penstock.storage.files.files import File
from penstock.storage.segments.scan import SECTOR_BYTES, Damage, find_batch, is_tear, scan, walk
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.storage.logs import make_batch


def stamped(offset: int, value: bytes = b"value", term: int = 0) -> bytes:
    batch = bytearray(make_batch(value))
    stamp(memoryview(batch), offset, term)
    return bytes(batch)


def file_of(*parts: bytes) -> File:
    file = SimulatedDisk().root.open("log", create=True)
    file.append(parts)
    return file


def scanned(file: File, first_offset: int = 0) -> tuple[list[int], Damage | None]:
    offsets: list[int] = []
    damage = scan(
        file, file.size(), first_offset, lambda _, header: offsets.append(header.base_offset)
    )
    return offsets, damage


SMALL = stamped(0)


def test_walk_reads_headers_whatever_the_chunk() -> None:
    parts = [stamped(offset, b"x" * (offset * 37 % 500)) for offset in range(20)]
    file = file_of(*parts)
    for chunk_bytes in (1, 61, 100, 4096):
        found = list(walk(file, 0, file.size(), 0, chunk_bytes))
        assert [header.base_offset for _, header in found] == list(range(20))
        assert [header.length for _, header in found] == list(map(len, parts))
    assert next(walk(file, len(parts[0]), file.size(), None))[1].base_offset == 1


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([SMALL, b"\0" * 80], "no batch header"),
        ([SMALL, stamped(2)], "has offset 2, not 1"),
        ([SMALL, stamped(1)[:-1]], "goes on beyond the end"),
        ([SMALL, stamped(1)[:30]], "no batch header"),
    ],
)
def test_walk_refuses_what_does_not_follow(parts: list[bytes], reason: str) -> None:
    file = file_of(*parts)
    with pytest.raises(
        CorruptLog, match=f"disk/log is damaged at position {len(SMALL)}: .*{reason}"
    ):
        list(walk(file, 0, file.size(), 0))


def test_gaps_are_lawful_where_they_are_allowed() -> None:
    parts = [stamped(offset) for offset in (3, 7, 8, 2**40)]
    file = file_of(*parts)
    found = [header.base_offset for _, header in walk(file, 0, file.size(), 0, gaps=True)]
    assert found == [3, 7, 8, 2**40]
    visited: list[int] = []
    damage = scan(
        file, file.size(), 0, lambda _, header: visited.append(header.base_offset), gaps=True
    )
    assert (visited, damage) == (found, None)


def test_a_step_back_is_damage_also_where_gaps_are_allowed() -> None:
    file = file_of(stamped(5), stamped(9), stamped(8))
    with pytest.raises(CorruptLog, match="has offset 8, not 10"):
        list(walk(file, 0, file.size(), 5, gaps=True))
    damage = scan(file, file.size(), 5, lambda *_: None, gaps=True)
    assert damage is not None
    assert (damage.position, damage.whole) == (2 * len(SMALL), True)


def test_scan_checks_every_batch() -> None:
    file = file_of(stamped(5), stamped(6, b"x" * 300_000), stamped(7, term=3))
    assert scanned(file, 5) == ([5, 6, 7], None)


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :]


def too_large() -> bytes:
    return SMALL[:8] + (BATCH_BYTES_MAX).to_bytes(4) + SMALL[12:]


@pytest.mark.parametrize(
    ("second", "reason", "whole"),
    [
        (stamped(1)[:-3], "no whole batch", False),
        (flipped(stamped(1), 70), "checksum", False),
        (flipped(stamped(1), 16), "no whole batch", False),
        (stamped(0), "has offset 0, not 1", True),
        (stamped(1, term=0), "has term 0, after term 1", True),
        (too_large(), "no whole batch", False),
    ],
)
def test_scan_stops_at_the_first_damage(second: bytes, reason: str, whole: bool) -> None:
    first = stamped(0, term=1)
    offsets, damage = scanned(file_of(first, second))
    assert offsets == [0]
    assert damage is not None
    assert damage.position == len(first)
    assert damage.next_offset == 1
    assert reason in damage.reason
    assert damage.whole == whole


def judge(*parts: bytes) -> bool:
    """Whether the damage in the file is a tear."""
    file = file_of(*parts)
    damage = scanned(file)[1]
    assert damage is not None
    return is_tear(file, damage, file.size())


BIG = stamped(1, bytes(range(1, 256)) * 10)


@pytest.mark.parametrize(
    "parts",
    [
        [SMALL, BIG[:1]],
        [SMALL, BIG[:100]],
        [SMALL, BIG[:-1]],
        [SMALL, bytes(len(BIG))],
        [SMALL, BIG[: 1024 - len(SMALL)], bytes(len(BIG) - 1024 + len(SMALL))],
        # A sector in the middle never arrived, the ones behind it and the next batch did.
        [SMALL, BIG[: 1024 - len(SMALL)], bytes(512), BIG[1536 - len(SMALL) :], stamped(2)],
    ],
)
def test_missing_ends_and_lost_sectors_are_tears(parts: list[bytes]) -> None:
    """R-STO-6."""
    assert judge(*parts)


@pytest.mark.parametrize("follow", [[], [stamped(2)], [stamped(2), stamped(3)]])
@pytest.mark.parametrize("position", [3, 16, 18, 30, 61, 1500])
def test_a_flipped_bit_in_whole_data_is_no_tear(position: int, follow: list[bytes]) -> None:
    """R-STO-6: it may have been acknowledged."""
    assert not judge(SMALL, flipped(BIG, position), *follow)


def test_a_whole_batch_in_the_wrong_place_is_no_tear_whatever_it_holds() -> None:
    assert not judge(SMALL, stamped(3, bytes(2000)))


def test_a_wrong_length_is_no_tear_if_batches_follow() -> None:
    wrong = BIG[:8] + (len(BIG) + 5000).to_bytes(4) + BIG[12:]
    assert not judge(SMALL, wrong, stamped(2))


def test_a_batch_whose_first_bytes_were_in_a_lost_sector_is_a_tear() -> None:
    """Base offset and a part of the length are gone, the checksum still holds."""
    filler = stamped(0, b"x" * (SECTOR_BYTES - 9 - len(stamped(0, b"")) - 2))
    lead = SECTOR_BYTES - len(filler)
    assert 8 < lead < 12
    second = stamped(1)
    assert judge(filler, bytes(lead) + second[lead:])


def test_find_batch_looks_past_what_only_looks_like_one() -> None:
    batch = stamped(4)
    for noise in (
        batch[:20] + b"????" + batch[24:],  # a wrong checksum
        (10**9).to_bytes(8) + batch[8:],  # an offset too far away
        b"\x02" * 300_000,  # magic bytes, over more than one window
    ):
        file = file_of(b"?", noise, batch)
        damage = Damage(0, 1, "", whole=False)
        assert find_batch(file, damage, file.size()) == 1 + len(noise)
        assert find_batch(file, damage, 1 + len(noise)) is None
