"""Whom an operator has parked on this broker, so that a new stream of it is parked too (R-DEL-8).

A client that is parked may connect again, or open another stream, here or after it was on another
broker: what it is delivered stays parked by its name and the stream's group. Not the streams, which
know for themselves; and not kept over a restart of the broker. The invariant: at most
OPERATOR_PARKS_MAX are remembered; of more, those that were parked last.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

from penstock.model.limits import OPERATOR_PARKS_MAX

logger = logging.getLogger(__name__)


class OperatorParks:
    """One per broker. All calls come from the event loop."""

    def __init__(self) -> None:
        # By client name and group; as an ordered set.
        self._parks: OrderedDict[tuple[str, str], None] = OrderedDict()

    def add(self, client_name: str, group: str) -> None:
        """Clients without a name cannot be told from one another: theirs ends with their stream."""
        if not client_name:
            return
        self._parks[client_name, group] = None
        self._parks.move_to_end((client_name, group))
        if len(self._parks) > OPERATOR_PARKS_MAX:
            (name, its_group), _ = self._parks.popitem(last=False)
            logger.warning(
                "Too many clients are parked: what is delivered to %r for group %r stays so only "
                "until it connects again.",
                name,
                its_group,
            )

    def remove(self, client_name: str, group: str) -> bool:
        """group: an empty one means all of them. Whether anything was parked."""
        found = [
            park
            for park in self._parks
            if park[0] == client_name and (not group or park[1] == group)
        ]
        for park in found:
            del self._parks[park]
        return bool(found)

    def has(self, client_name: str, group: str) -> bool:
        return (client_name, group) in self._parks
