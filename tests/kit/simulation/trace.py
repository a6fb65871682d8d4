"""What happened in a run, told line by line, and a hash of all of it.

Not what must hold: that is `checkers`. The invariant: the hash does not depend on whether lines are
kept, so a run that is looked at is the run that failed.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

_DIGEST_BYTES: Final = 8


class Trace:
    """Of one run. is_kept: lines are for somebody to read; else only the hash is made."""

    def __init__(self, *, is_kept: bool = False) -> None:
        self.is_kept = is_kept
        self.lines: list[str] = []
        self._hash = blake2b(digest_size=_DIGEST_BYTES)

    @property
    def digest(self) -> str:
        """Of everything so far."""
        return self._hash.hexdigest()

    def note(self, now_ms: int, who: str, what: str) -> None:
        """Something that a person wants to know of."""
        line = f"{now_ms:>8} {who:<10} {what}"
        self._hash.update(line.encode())
        if self.is_kept:
            self.lines.append(line)

    def data(self, now_ms: int, data: bytes, describe: Callable[[], str]) -> None:
        """Bytes that came somewhere; they are put into words only if somebody reads them."""
        self._hash.update(b"%d" % now_ms)
        self._hash.update(data)
        if self.is_kept:
            self.lines.append(f"{now_ms:>8} {describe()}")

    def remark(self, now_ms: int, text: str) -> None:
        """What explains a line, for whoever reads; no part of what happened."""
        if self.is_kept:
            self.lines.append(f"{now_ms:>8}   {text}")
