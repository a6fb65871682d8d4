"""What every error of this package is: one sentence, a code, and whether to try again.

Not what can go wrong: the modules beside this one say that, each of its domain; here are only the
errors that belong to none. The invariant: without words of its own an error says the first line of
what its class says.
"""

from __future__ import annotations

from typing import ClassVar


class PenstockError(Exception):
    """The base of every error this package raises on purpose."""

    code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or type(self).__name__).splitlines()[0])

    @property
    def message(self) -> str:
        return str(self)


class InternalError(PenstockError):
    """The broker hit a bug: its log has the traceback."""

    code = 2


class InvalidRequest(PenstockError):
    """The request contradicts itself or leaves out what it needs."""

    code = 3


class ClientClosed(PenstockError):
    """The client was closed: connect again to go on."""

    code = 4
