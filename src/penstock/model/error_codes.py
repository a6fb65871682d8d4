"""From the code that travels on the wire to the error that it stands for.

Not the errors (`model.errors`), and none of those that somebody raises in his own process only.
The invariant: every one of them has a code of its own, and a code that nobody here knows is an
error all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.model import errors
from penstock.model.errors import PenstockError, UnavailableError

# Whatever else has been imported by then.
_PACKAGE: Final = f"{errors.__name__}."


def _tree(error: type[PenstockError]) -> Iterator[type[PenstockError]]:
    if error.__module__.startswith(_PACKAGE):
        yield error
    for child in error.__subclasses__():
        yield from _tree(child)


BY_CODE = {error.code: error for error in _tree(PenstockError)}


def from_code(code: int, message: str, *, retriable: bool = False) -> PenstockError:
    """The error a peer reported. Of a code that only a newer peer knows, what is left is whether
    the call may be tried again."""
    unknown = UnavailableError if retriable else PenstockError
    return BY_CODE.get(code, unknown)(message)
