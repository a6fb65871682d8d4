"""A process that is killed at a chosen system call, as far as files can tell."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.spark.pipeline.tables import compaction, exchange

CALLS = ("rename", "unlink", "mkdir", "makedirs", "link", "rmdir")
# So many tests share the steps of a long one, which are dozens.
KILL_PARTS = 3


class Killed(BaseException):
    """Nothing after it runs, except what only releases memory and locks."""


class Killer:
    """Counts what is done to the file system; at one of them, everything ends."""

    def __init__(self, at: int | None, look: Callable[[], None]) -> None:
        self.count = 0
        self._at = at
        self._look = look

    def before(self) -> None:
        if self._at is not None and self.count >= self._at:
            raise Killed  # and whatever a `finally` still tries
        self._look()
        self.count += 1


@contextmanager
def killed_at(
    monkeypatch: pytest.MonkeyPatch, at: int | None, look: Callable[[], None]
) -> Iterator[Killer]:
    """Before each change of a file or folder there is a look; the `at`th is not done any more."""
    killer = Killer(at, look)

    def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
        def guard(*arguments: Any, **settings: Any) -> Any:
            killer.before()
            return call(*arguments, **settings)

        return guard

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, guarded(getattr(os, name)))
        # No power is lost here, and no time for it.
        patch.setattr(os, "fsync", guarded(lambda descriptor: None))
        patch.setattr(shutil, "rmtree", guarded(shutil.rmtree))
        patch.setattr(compaction, "exchange", guarded(exchange.exchange))
        yield killer
