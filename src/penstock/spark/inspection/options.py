"""What is to be inspected: topics of a broker or of a data folder, and how strictly.

Not how it is done. The invariant: there is at least one topic, and exactly one place to read it
from.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.errors import InvalidRequest
from penstock.spark.inspection.thresholds import DEFAULTS, Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOptions:
    """The question that `inspect` answers."""

    topics: tuple[str, ...]
    bootstrap: str | None = None
    """A broker to ask first; several with commas between."""
    path: str | None = None
    """A data folder to read instead, without a broker."""
    dead_letters: tuple[str, ...] = ()
    """Topics of dead letters, beside those that are found by their names."""
    since_ms: int | None = None
    """Only messages of this moment or later; None: everything that was kept."""
    thresholds: Thresholds = DEFAULTS

    def __post_init__(self) -> None:
        if not self.topics:
            raise InvalidRequest("There is no topic to inspect: name at least one.")
        if (self.bootstrap is None) == (self.path is None):
            raise InvalidRequest(
                "An inspection reads from a broker or from a data folder: give one of both, "
                "bootstrap or path."
            )
