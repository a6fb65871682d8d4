"""From the code that travels on the wire to the error that it stands for.

Not the errors (`model.errors`, `model.delivery_errors`). The invariant: every one of them has a
code of its own, and a code that nobody here knows is an error all the same.
"""

from __future__ import annotations

from penstock.model.delivery_errors import DeliveryError
from penstock.model.errors import PenstockError, UnavailableError

assert issubclass(DeliveryError, PenstockError), "imported, so that the tree is whole"


def _tree(error: type[PenstockError]) -> dict[int, type[PenstockError]]:
    classes = {error.code: error}
    for child in error.__subclasses__():
        classes |= _tree(child)
    return classes


BY_CODE = _tree(PenstockError)


def from_code(code: int, message: str, *, retriable: bool = False) -> PenstockError:
    """The error a peer reported. Of a code that only a newer peer knows, what is left is whether
    the call may be tried again."""
    unknown = UnavailableError if retriable else PenstockError
    return BY_CODE.get(code, unknown)(message)
