"""Where a shared group stands in a partition, as bytes that outlive the partition's leader.

    version 1 · start · ceiling - start · acknowledged, expired, dead · base, in seconds
    · reasons (how many, then length and UTF-8 of each) · runs to the end, from `start` on:
      a byte (kind, whether one message, whether attempts) · [length] · [attempts]
      · waiting: seconds behind the base · dying: which reason, 0 for one that is not kept

Numbers are unsigned, seven bits a byte, the low ones first. Messages behind the last run are free.
Not who holds a lease, which no other leader needs to know. The invariant: what is read back equals
what was written, but for times, which are rounded up to seconds, and reasons beyond their limit;
and bytes that nothing could have written are CorruptLog. The log they are in has a checksum.

For each offset of the window there are five bytes at most, a kind, attempts, and three of a delay:
50,000 for the largest window, with 4 kB of reasons and some 50 of numbers in front.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.model.errors import CorruptLog
from penstock.model.limits import (
    SHARE_ATTEMPTS_MAX,
    SHARE_REASONS_BYTES_MAX,
    SHARE_WINDOW_OFFSETS_MAX,
)

VERSION: Final = 1

_OFFSET_MAX: Final = 2**63 - 1
_NUMBER_BITS_MAX: Final = 63
_KIND_MASK: Final = 0b0011
_IS_ONE: Final = 0b0100
_HAS_ATTEMPTS: Final = 0b1000


class SavedKind(IntEnum):
    """What a state says of a message."""

    DONE = 0
    FREE = 1
    """Or leased, which is not told apart."""
    WAITING = 2
    DYING = 3


class SavedRun(NamedTuple):
    """Messages of which the same is known, behind those of the run before."""

    length: int
    kind: SavedKind
    attempts: int = 0
    until_ms: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """All that is durable of a shared group in a partition."""

    start: int
    """Everything before it is done."""
    ceiling: int
    """No message at or above it was ever leased."""
    acknowledged: int = 0
    expired: int = 0
    dead: int = 0
    runs: list[SavedRun] = field(default_factory=list)


def encode_share_state(state: ShareState) -> bytes:
    assert 0 <= state.start <= state.ceiling, (state.start, state.ceiling)
    runs = _merged(state.runs)
    assert sum(run.length for run in runs) <= SHARE_WINDOW_OFFSETS_MAX, state.start
    waits = [_seconds(run.until_ms) for run in runs if run.kind is SavedKind.WAITING]
    base_s = min(waits, default=0)
    reasons = _kept_reasons(runs)
    encoded = bytearray([VERSION])
    _write(encoded, state.start, state.ceiling - state.start)
    _write(encoded, state.acknowledged, state.expired, state.dead, base_s, len(reasons))
    for text in reasons:
        _write(encoded, len(text))
        encoded += text
    for run in runs:
        _write_run(encoded, run, base_s, reasons)
    return bytes(encoded)


def decode_share_state(encoded: bytes) -> ShareState:
    reader = _Reader(encoded)
    version = reader.byte()
    if version != VERSION:
        raise CorruptLog(
            f"The place of a shared group has format {version}, which this broker does not know: "
            "use one that is as new as the one that wrote it."
        )
    start = reader.number()
    ceiling = start + reader.number(SHARE_WINDOW_OFFSETS_MAX)
    acknowledged, expired, dead = reader.number(), reader.number(), reader.number()
    base_s = reader.number(_OFFSET_MAX // 1000)
    reasons = reader.reasons()
    runs: list[SavedRun] = []
    length = 0
    while not reader.is_at_end:
        runs.append(_read_run(reader, base_s, reasons))
        length += runs[-1].length
        if length > SHARE_WINDOW_OFFSETS_MAX:
            raise _corrupt(f"it tells of more than {SHARE_WINDOW_OFFSETS_MAX} messages")
    if max(ceiling, start + length) > _OFFSET_MAX:
        raise _corrupt(f"it begins at offset {start}")
    return ShareState(
        start=start,
        ceiling=ceiling,
        acknowledged=acknowledged,
        expired=expired,
        dead=dead,
        runs=runs,
    )


# --- writing -----------------------------------------------------------------------------------


def _merged(runs: list[SavedRun]) -> list[SavedRun]:
    """One run for neighbours that differ only in what is not kept, and none for free ones at the
    end."""
    merged: list[SavedRun] = []
    for run in runs:
        if merged and merged[-1][1:] == run[1:]:
            merged[-1] = run._replace(length=merged[-1].length + run.length)
        else:
            merged.append(run)
    if merged and merged[-1].kind is SavedKind.FREE and not merged[-1].attempts:
        merged.pop()
    return merged


def _kept_reasons(runs: list[SavedRun]) -> dict[bytes, int]:
    """Each reason once, with its number from 1 on, while there is room."""
    reasons: dict[bytes, int] = {}
    room = SHARE_REASONS_BYTES_MAX
    for run in runs:
        text = run.reason.encode(errors="replace")
        if text and text not in reasons and len(text) + 2 <= room:
            reasons[text] = len(reasons) + 1
            room -= len(text) + 2
    return reasons


def _write_run(encoded: bytearray, run: SavedRun, base_s: int, reasons: dict[bytes, int]) -> None:
    assert run.length > 0, run
    assert run.attempts <= SHARE_ATTEMPTS_MAX, run
    is_one, has_attempts = run.length == 1, run.attempts > 0
    encoded.append(run.kind | is_one * _IS_ONE | has_attempts * _HAS_ATTEMPTS)
    if not is_one:
        _write(encoded, run.length)
    if has_attempts:
        _write(encoded, run.attempts)
    if run.kind is SavedKind.WAITING:
        _write(encoded, _seconds(run.until_ms) - base_s)
    elif run.kind is SavedKind.DYING:
        _write(encoded, reasons.get(run.reason.encode(errors="replace"), 0))


def _seconds(until_ms: int) -> int:
    """Rounded up: nothing is handed out before its time."""
    return -(-until_ms // 1000)


def _write(encoded: bytearray, *numbers: int) -> None:
    for number in numbers:
        assert number >= 0, number
        left = number
        while left >= 0x80:
            encoded.append(left & 0x7F | 0x80)
            left >>= 7
        encoded.append(left)


# --- reading -----------------------------------------------------------------------------------


class _Reader:
    """The bytes from front to back; CorruptLog where they make no sense."""

    def __init__(self, encoded: bytes) -> None:
        self._encoded = encoded
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position == len(self._encoded)

    def byte(self) -> int:
        if self.is_at_end:
            raise _corrupt("it is cut short")
        self._position += 1
        return self._encoded[self._position - 1]

    def number(self, number_max: int = _OFFSET_MAX) -> int:
        number = 0
        for shift in range(0, _NUMBER_BITS_MAX, 7):
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise _corrupt("a number has no end")
        if number > number_max:
            raise _corrupt(f"{number} is more than {number_max}")
        return number

    def reasons(self) -> list[str]:
        """What number 0 stands for comes first: a reason that was not kept."""
        reasons = [""]
        for _ in range(self.number(SHARE_REASONS_BYTES_MAX)):
            length = self.number(SHARE_REASONS_BYTES_MAX)
            text = self._encoded[self._position : self._position + length]
            if len(text) < length:
                raise _corrupt("it is cut short")
            self._position += length
            try:
                reasons.append(text.decode())
            except UnicodeDecodeError as error:
                raise _corrupt("a reason is no text") from error
        return reasons


def _read_run(reader: _Reader, base_s: int, reasons: list[str]) -> SavedRun:
    head = reader.byte()
    if head > (_KIND_MASK | _IS_ONE | _HAS_ATTEMPTS):
        raise _corrupt(f"a run is of kind {head}")
    kind = SavedKind(head & _KIND_MASK)
    length = 1 if head & _IS_ONE else reader.number(SHARE_WINDOW_OFFSETS_MAX)
    if length == 0:
        raise _corrupt("a run is empty")
    attempts = reader.number(SHARE_ATTEMPTS_MAX) if head & _HAS_ATTEMPTS else 0
    until_ms, reason = 0, ""
    if kind is SavedKind.WAITING:
        until_ms = (base_s + reader.number(_OFFSET_MAX // 1000)) * 1000
    elif kind is SavedKind.DYING:
        reason = reasons[reader.number(len(reasons) - 1)]
    return SavedRun(length, kind, attempts, until_ms, reason)


def _corrupt(what: str) -> CorruptLog:
    return CorruptLog(
        f"The place of a shared group in a partition cannot be read: {what}; reset the group to "
        "an offset, or restore the topic it is kept in."
    )
