"""Messages on their way to the dead letters: to be copied by the shell, and done after that.

Not when a message is dead, nor what its letter says. The invariant: nobody holds a message that is
dying; it is told to the shell once, and again only when the shell says that its copy failed.
"""

from __future__ import annotations

from collections import deque

from penstock.coordination.delivery.shared_settings import DeadMessage
from penstock.coordination.delivery.window.message_state import Kind, State
from penstock.coordination.delivery.window.window import Window


class Dying:
    """Those of one window."""

    def __init__(self, window: Window) -> None:
        self._window = window
        # Ranges that were not told yet.
        self._untold: deque[tuple[int, int]] = deque()

    def add(self, first: int, end: int, state: State) -> None:
        assert state.kind is Kind.DYING, state
        self._window.change(first, end, state)
        self._untold.append((first, end))

    def remember(self, first: int, end: int) -> None:
        """They were dying with a former leader."""
        self._untold.append((first, end))

    def take(self, messages_max: int) -> list[DeadMessage]:
        taken: list[DeadMessage] = []
        while self._untold and len(taken) < messages_max:
            first, end = self._untold.popleft()
            for low, high, state in self._window.runs.pieces(first, end):
                if state.kind is not Kind.DYING:
                    # The log does not have them any more.
                    continue
                told = min(high, low + messages_max - len(taken))
                taken.extend(
                    DeadMessage(offset, state.attempts, state.reason) for offset in range(low, told)
                )
                if told < high:
                    self._untold.appendleft((told, end))
                    break
        return taken

    def bury(self, offset: int) -> bool:
        """Its copy is durable. Whether it was dying: the log may have lost it meanwhile."""
        if self._state_of(offset) is None:
            return False
        self._window.finish(offset, offset + 1)
        return True

    def retry(self, offset: int, retry_at_ms: int) -> None:
        """Its copy failed: tell it again then."""
        state = self._state_of(offset)
        if state is not None:
            self._window.change(offset, offset + 1, state._replace(until_ms=retry_at_ms))

    def _state_of(self, offset: int) -> State | None:
        for _, _, state in self._window.runs.pieces(offset, offset + 1):
            if state.kind is Kind.DYING:
                return state
        return None
