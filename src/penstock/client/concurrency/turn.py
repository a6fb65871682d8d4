"""One turn of the event loop, to await without making anything.

Shared by all who work in long stretches, so that the sockets get their share of the thread.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final


class Turn:
    """Awaited, lets the loop turn once. Not awaited, it leaves nothing behind."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield


TURN: Final = Turn()
