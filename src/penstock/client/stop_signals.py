"""SIGTERM and SIGINT as a wish to end: what is under way is finished first.

Not what finishing is. The invariants: a signal that the program handles itself is left to it, and
so is every signal outside the main thread; the first signal asks, and a second one does what it
would have done without us; afterwards everything is as it was.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Ask = Callable[[], object]

# Who is to be asked, and what the signals did before: of the main thread, which alone has signals.
_asked: list[Ask] = []
_before: dict[int, Any] = {}
_told: list[int] = []


@contextmanager
def asked_by_signals(ask: Ask, *, is_last_word: bool, interrupts: bool) -> Iterator[None]:
    """Within it, `ask` is called by a signal that nobody else handles, in the middle of anything.

    is_last_word: the program goes on to its end when this has returned. Where it would not, since
    other tasks run on, the signal is sent again when the last who was asked has finished.
    interrupts: SIGINT asks too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _asked.append(ask)
    _take(signal.SIGTERM)
    if interrupts:
        _take(signal.SIGINT)
    try:
        yield
    finally:
        _asked.remove(ask)
        if not _asked:
            _give_back()
            told = [*_told]
            _told.clear()
            if told and not is_last_word:
                signal.raise_signal(told[0])


def is_main_task(task: asyncio.Task[Any] | None) -> bool:
    """Whether `asyncio.run` waits for this task, so that the program ends with it."""
    handler = signal.getsignal(signal.SIGINT)
    if handler == _on_signal:
        handler = _before.get(signal.SIGINT)
    return isinstance(handler, functools.partial) and handler.keywords.get("main_task") is task


def _take(number: int) -> None:
    handler = signal.getsignal(number)
    is_untouched = handler in (signal.SIG_DFL, signal.default_int_handler)
    is_of_asyncio = isinstance(handler, functools.partial) and isinstance(
        getattr(handler.func, "__self__", None), asyncio.Runner
    )
    if is_untouched or is_of_asyncio:
        _before[number] = signal.signal(number, _on_signal)


def _on_signal(number: int, _frame: object) -> None:
    _give_back()
    _told.append(number)
    for ask in [*_asked]:
        ask()


def _give_back() -> None:
    for number, handler in _before.items():
        if signal.getsignal(number) == _on_signal:
            signal.signal(number, handler)
    _before.clear()
