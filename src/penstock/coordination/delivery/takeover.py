"""From the window of one leader to that of the next, by way of a durable state.

Not the bytes. The invariant: what was done stays done and what was dying is dying; anything else
beneath the ceiling may have been leased after the state was written, and is in doubt.
"""

from __future__ import annotations

from typing import Final

from penstock.coordination.delivery.dying import Dying
from penstock.coordination.delivery.shared_state import SavedKind, SavedRun, ShareState
from penstock.coordination.delivery.window.message_state import DONE, Kind, State
from penstock.coordination.delivery.window.runs import Piece
from penstock.coordination.delivery.window.window import Window

LOST_REASON: Final = "The reason was lost with the former leader."

# The others are free for a new leader, or in doubt. What is in doubt here waits there: it may be
# one that waits for longer than that.
_SAVED_KINDS: Final = {
    Kind.DONE: SavedKind.DONE,
    Kind.IN_DOUBT: SavedKind.WAITING,
    Kind.WAITING: SavedKind.WAITING,
    Kind.DYING: SavedKind.DYING,
}


def saved_run(piece: Piece) -> SavedRun:
    first, end, state = piece
    kind = _SAVED_KINDS.get(state.kind, SavedKind.FREE)
    until_ms = state.until_ms if kind is SavedKind.WAITING else 0
    return SavedRun(end - first, kind, state.attempts, until_ms, state.reason)


def present_part(saved: ShareState, log_end: int) -> ShareState:
    """Without what is behind the end of the log: the log lost it, and what comes there now are
    other messages."""
    if saved.start <= log_end:
        return saved
    return ShareState(
        start=log_end,
        ceiling=log_end,
        acknowledged=saved.acknowledged,
        expired=saved.expired,
        dead=saved.dead,
    )


def take_over(window: Window, dying: Dying, saved: ShareState, doubt_ms: int, log_end: int) -> None:
    """Put the messages of a former leader's state into a window that is empty; those that it may
    have leased are in doubt until `doubt_ms`."""
    assert not window.runs, (window.runs.start, window.runs.end)
    assert window.runs.start == saved.start <= log_end, (window.runs.start, saved.start, log_end)
    doubt_end = min(saved.ceiling, log_end)
    for run in saved.runs:
        first = window.runs.end
        end = min(first + run.length, log_end)
        if first >= end:
            break
        if run.kind is SavedKind.DONE:
            window.remember(end, DONE)
        elif run.kind is SavedKind.DYING:
            window.remember(end, State(Kind.DYING, run.attempts, reason=run.reason or LOST_REASON))
            dying.remember(first, end)
        else:
            doubtful = min(end, max(first, doubt_end))
            if first < doubtful:
                # One that waited may have been leased after it was written that it waits.
                until_ms = max(doubt_ms, run.until_ms)
                window.remember(doubtful, State(Kind.IN_DOUBT, run.attempts, until_ms=until_ms))
            if doubtful < end:
                # Nobody can hold it; but it may have been released for later, or be in a backoff.
                kind = Kind.WAITING if run.until_ms else Kind.AWAITED
                window.remember(end, State(kind, run.attempts, until_ms=run.until_ms))
    if window.runs.end < doubt_end:
        window.remember(doubt_end, State(Kind.IN_DOUBT, until_ms=doubt_ms))
    assert window.runs.end <= log_end, (window.runs.end, log_end)
    window.runs.drop_done()
    window.fed = window.runs.start
