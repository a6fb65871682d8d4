"""What production's loggers say while a world runs: remarks in its trace, none on a terminal.

The invariant: what nobody foresaw is told once, whoever caught it.
"""

from __future__ import annotations

import logging
from typing import Final

from tests.kit.simulated_disk import SimulatedCrash
from tests.kit.simulation.checkers import Violation
from tests.kit.simulation.timeline import Timeline

_LOGGER: Final = "penstock"


class Ears(logging.Handler):
    """A context: they are heard while it is open."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self._timeline = timeline
        self._unforeseen: BaseException | None = None
        self._before = (logging.NOTSET, True)

    def __enter__(self) -> Ears:
        logger = logging.getLogger(_LOGGER)
        self._before = (logger.level, logger.propagate)
        logger.setLevel(logging.INFO if self._timeline.trace.is_kept else logging.ERROR)
        logger.propagate = False
        logger.addHandler(self)
        return self

    def __exit__(self, *exception: object) -> None:
        logger = logging.getLogger(_LOGGER)
        logger.removeHandler(self)
        logger.level, logger.propagate = self._before
        self.close()

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, SimulatedCrash):
            self._unforeseen = self._unforeseen or error
        self._timeline.trace.remark(self._timeline.now_ms, record.getMessage())

    def tell(self) -> None:
        error, self._unforeseen = self._unforeseen, None
        if isinstance(error, Violation):
            raise error
        if error is not None:
            raise Violation(f"nobody foresaw {error!r}") from error
