"""What one call may ask for at once."""

from __future__ import annotations

from penstock.model.errors import InvalidRequest
from penstock.model.limits import NAMES_PER_CALL_MAX


def check_count(what: str, count: int) -> None:
    """Refuse a call that names more than a call may."""
    if count > NAMES_PER_CALL_MAX:
        raise InvalidRequest(
            f"The call names {count} {what}: {NAMES_PER_CALL_MAX} is the limit, make several calls."
        )
