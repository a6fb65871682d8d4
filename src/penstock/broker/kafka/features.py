"""Features of the cluster as Kafka's tools and clients look for them (KIP-584): one table.

They stand for what this version of the broker does, and nothing switches them off: so there is no
level to choose, and what is finalized is what is supported. Those that only a quorum of Kafka's own
has (metadata.version, kraft.version) are not here. The invariant: what is in the table works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Feature:
    """A level is what Kafka's documentation says of it."""

    name: str
    min_level: int
    max_level: int

    def reason_against(self, level: int) -> str | None:
        """Why the level cannot be had; None if it can."""
        if self.min_level <= level <= self.max_level:
            return None
        levels = " to ".join(map(str, dict.fromkeys((self.min_level, self.max_level))))
        return f"This broker has {self.name} at level {levels}."


FEATURES: Final = (
    # The consumer protocol of KIP-848.
    Feature("group.version", 1, 1),
    # Share groups, KIP-932.
    Feature("share.version", 1, 1),
    # Level 0 is that of clients which know nothing of KIP-890.
    Feature("transaction.version", 0, 0),
)
# It would rise with every change of a level, and no level changes.
EPOCH: Final = 0
