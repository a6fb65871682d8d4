"""What can go wrong with reaching somebody: no answer, or not now.

The invariant: codes 70 to 77, and the same call may succeed later.
"""

from __future__ import annotations

from penstock.model.errors.base import PenstockError


class UnavailableError(PenstockError):
    """The other side cannot answer now."""

    code = 70
    retriable = True


class TimedOut(UnavailableError):
    """No answer came in time."""

    code = 71


class Busy(UnavailableError):
    """The broker is at one of its limits: try again later."""

    code = 72


class ShuttingDown(UnavailableError):
    """The broker is shutting down."""

    code = 73


class ConnectionLost(UnavailableError):
    """The connection broke before the answer came."""

    code = 74


class ChangedMeanwhile(UnavailableError):
    """Somebody else changed the same thing first: look at it again."""

    code = 75


class RegistryUnavailable(UnavailableError):
    """The registry cannot be reached: what is there is served, nothing can be changed."""

    code = 76


class CoordinatorLoading(UnavailableError):
    """The broker has just begun to look after this, and is reading what there is: try again."""

    code = 77
