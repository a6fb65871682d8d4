"""SIGTERM and SIGINT as a wish to end: what is under way is finished first.

Not what finishing is. The invariants: a signal that the program handles itself is left to it, and
so is every signal outside the main thread; the first signal asks, and a second one does what it
would have done without us; afterwards everything is as it was. One signal is enough: where the
program does not end by itself, it is sent again when nobody is at work any more.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

logger = logging.getLogger(__name__)

Ask = Callable[[], object]


class _Told(NamedTuple):
    number: int
    loop: Callable[[], asyncio.AbstractEventLoop | None]
    """That ran then, if there still is one."""


# Who is to be asked, what the signals did before, and which one has come: of the main thread, which
# alone has signals.
_asked: list[Ask] = []
_before: dict[int, Any] = {}
_told: list[_Told] = []


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
            if _told and not is_last_word:
                _send_again()


def told_before(*, is_last_word: bool) -> bool:
    """Whether a signal has told the program to end, and so nothing is to begin in it.

    Where it is the program that goes on, and nobody is finishing what is under way, the signal is
    sent again.
    """
    if not _told or threading.current_thread() is not threading.main_thread():
        return False
    [told] = _told
    # SIGTERM is for the process; SIGINT for what runs in the foreground, and an interactive
    # interpreter runs many things one after another, each in a loop of its own.
    if told.number == signal.SIGINT and told.loop() is not _running_loop():
        _told.clear()
        return False
    name = signal.Signals(told.number).name
    if _asked or not is_last_word:
        logger.info("%s has told this program to end: serve takes no messages any more.", name)
        return True
    logger.warning("%s has ended serve, and serve is called again: it is sent again.", name)
    _send_again()
    return False  # the program handles it itself by now


def is_main_task(task: asyncio.Task[Any]) -> bool:
    """Whether `asyncio.run` waits for this task, which is the one that asks, so that the program
    ends with it."""
    # The handler of SIGINT would say it too, but there is none where interrupts are ignored, as in
    # what a shell without job control starts with `&`, or are the program's own affair.
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not asyncio.Runner.run.__code__:
        frame = frame.f_back
    return frame is not None and frame.f_locals.get("task") is task


def _send_again() -> None:
    number = _told[0].number
    _told.clear()
    signal.raise_signal(number)


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
    loop = _running_loop()
    _told[:] = [_Told(number, weakref.ref(loop) if loop is not None else lambda: None)]
    for ask in [*_asked]:
        ask()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


def _give_back() -> None:
    for number, handler in _before.items():
        if signal.getsignal(number) == _on_signal:
            signal.signal(number, handler)
    _before.clear()
