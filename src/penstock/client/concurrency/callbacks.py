"""A user's callbacks for partitions that come and go: called, awaited, and known to be running.

Not when they are called: `membership` says. The invariants: what a callback raises is logged and
goes no further; and whoever is called by one, in its own task or one that it started, can find out
for as long as it runs: who waited there for the callback's end would wait for ever.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from penstock.model.errors import InvalidRequest
from penstock.model.ids import TopicPartition

logger = logging.getLogger(__name__)

OnPartitions = Callable[[list[TopicPartition]], Awaitable[None] | None]
"""Is called, and awaited if it can be, with partitions that were given or are taken away."""


class _Running:
    """One call of a callback; tasks that it started, and that run on, see that it is over."""

    __slots__ = ("is_over", "outer", "owner")

    def __init__(self, owner: object, outer: _Running | None) -> None:
        self.owner = owner
        # The one that it was called in, perhaps another consumer's.
        self.outer = outer
        self.is_over = False


_running: ContextVar[_Running | None] = ContextVar("penstock_callback", default=None)


async def tell(
    owner: object, callback: OnPartitions | None, partitions: list[TopicPartition]
) -> None:
    """Call it, if there is one. owner: whose callback it is."""
    if callback is None:
        return
    running = _Running(owner, _running.get())
    token = _running.set(running)
    try:
        waiting = callback(list(partitions))
        if inspect.isawaitable(waiting):
            await waiting
    except Exception:
        # The user's mistake. The group cannot wait until it is mended.
        logger.exception("A callback for the partitions of a group failed")
    finally:
        running.is_over = True
        _running.reset(token)


def is_in_callback(owner: object) -> bool:
    """Whether one of the owner's callbacks runs, and this is asked by it."""
    running = _running.get()
    while running is not None:
        if running.owner is owner and not running.is_over:
            return True
        running = running.outer
    return False


def check_outside_callbacks(owner: object) -> None:
    """Raise InvalidRequest to who asks for what has to wait until the callback has returned."""
    if is_in_callback(owner):
        raise InvalidRequest(
            "A callback for partitions cannot assign others or close the consumer: do it when the "
            "callback has returned."
        )
