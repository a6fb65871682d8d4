"""Records picked out of a batch: by a test of what they have, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.model.errors import InvalidBatch
from penstock.records import BatchBuilder, Message, decode_batch, decode_messages
from penstock.records.header import HEADER_BYTES, check_batch, write_header
from penstock.records.rewrite import join_records
from tests.kit.records.implementations import Implementation

NOW_MS = 1_700_000_000_000
PLACES = {b"tag": 2, b"other": 3}


def built(count: int = 10, codec: int = 0) -> memoryview:
    """Record n has key n, tag n % 3, and every second one no headers at all."""
    builder = BatchBuilder(1 << 20, codec)
    for number in range(count):
        headers = [] if number % 2 else [("x", b"y"), ("tag", b"%d" % (number % 3)), ("n", None)]
        builder.append(NOW_MS + number, b"%d" % number, b"value %d" % number, headers)
    return memoryview(bytearray(builder.build()))


def select(
    implementation: Implementation,
    batch: memoryview,
    test: Callable[[list[Any]], object],
    *,
    start_offset: int = 0,
    needs_key: bool = True,
    portion: int = 3,
) -> Any:
    selection = implementation.selecting.Selection(
        check_batch(batch), batch, 1 << 20, start_offset, PLACES, needs_key, test
    )
    while selection.look(portion):
        pass
    return selection


def joined(batch: memoryview, selection: Any) -> list[Message]:
    header = check_batch(batch)
    made = join_records(header, selection.pieces(), selection.kept_count, selection.newest_ms)
    checked = check_batch(memoryview(made))
    assert checked.base_offset == header.base_offset
    assert checked.last_offset_delta == header.last_offset_delta
    messages = decode_batch(checked, memoryview(made), 1 << 20)
    assert checked.max_timestamp_ms == max(message.timestamp_ms for message in messages)
    return messages


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("portion", [1, 3, 100])
def test_what_passes_is_there_byte_for_byte(
    implementation: Implementation, codec: int, portion: int
) -> None:
    """R-DEL-12: in the batch's own codec, with the offsets they have."""
    batch = built(50, codec)
    wanted = {b"0", b"7", b"8", b"9", b"31", b"49"}
    selection = select(implementation, batch, lambda row: row[0] in wanted, portion=portion)
    assert not selection.is_whole
    assert selection.kept_count == len(wanted)
    originals = [each for each in decode_messages(batch, "", -1, 0) if each.key in wanted]
    assert [repr(each) for each in joined(batch, selection)] == [repr(each) for each in originals]


def test_rows_have_what_is_asked_for(implementation: Implementation) -> None:
    """Of the headers those with a place, and the first of a name that has a value."""
    builder = BatchBuilder(1 << 20, 0)
    headers = [("tag", None), ("tag", b"first"), ("tag", b"second"), ("else", b"?")]
    builder.append(NOW_MS, None, b"value", headers)
    builder.append(NOW_MS + 5, b"", None, [("other", b"")])
    batch = memoryview(bytearray(builder.build()))
    rows: list[list[Any]] = []
    select(implementation, batch, rows.append)
    assert rows == [[None, NOW_MS, b"first", None], [b"", NOW_MS + 5, None, b""]]
    rows.clear()
    select(implementation, batch, rows.append, needs_key=False)
    assert [row[0] for row in rows] == [None, None]


def test_only_true_is_yes(implementation: Implementation) -> None:
    """Unknown, which is None, is not; nor is anything else that Python takes for true."""
    for answer, count in ((True, 10), (False, 0), (None, 0), (1, 0), ("yes", 0)):
        selection = select(implementation, built(), lambda _, answer=answer: answer)  # type: ignore[misc]
        assert selection.kept_count == count
        assert selection.is_whole == (count == 10)


def test_records_before_the_start_are_neither_asked_nor_kept(
    implementation: Implementation,
) -> None:
    asked: list[bytes] = []

    def test(row: list[Any]) -> bool:
        asked.append(row[0])
        return True

    batch = built()
    selection = select(implementation, batch, test, start_offset=6)
    assert asked == [b"6", b"7", b"8", b"9"]
    assert selection.is_whole, "of those asked about, none is left out"
    assert [each.offset for each in joined(batch, selection)] == [6, 7, 8, 9]


def test_a_malformed_record_is_found(implementation: Implementation) -> None:
    batch = bytearray(built())
    batch[HEADER_BYTES] ^= 0x7E  # the length of the first record
    write_header(batch, check_batch(built()))
    with pytest.raises(InvalidBatch, match="malformed"):
        select(implementation, memoryview(batch), lambda _: True)


def test_a_bomb_is_not_opened(implementation: Implementation) -> None:
    builder = BatchBuilder(1 << 24, 4)
    builder.append(NOW_MS, None, bytes(1 << 22))
    batch = memoryview(bytearray(builder.build()))
    with pytest.raises(InvalidBatch, match="cannot be decompressed"):
        select(implementation, batch, lambda _: True)


def test_what_the_test_raises_comes_out(implementation: Implementation) -> None:
    def test(_: list[Any]) -> bool:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        select(implementation, built(), test)
