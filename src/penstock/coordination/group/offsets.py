"""How far a group has read, and for how long that is kept.

Not who may commit, which the group's machine says, nor the records that carry offsets
(`group.records`). The invariant: an offset of a group whose members read its topic never expires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock.model.errors import InvalidGroup, OffsetMetadataTooLarge
from penstock.model.limits import GROUP_NAME_LENGTH_MAX, OFFSET_METADATA_BYTES_MAX

Place = tuple[str, int]
"""A topic's name and a partition."""


class CommittedOffset(NamedTuple):
    """The next offset a group will read in one partition. A tuple, because there may be a million
    and each commit makes one."""

    topic: str
    topic_id: str
    """A topic that was deleted and made again is another topic, where nobody has read yet."""
    partition: int
    offset: int
    """Negative: the group has none, and goes by its own policy. Kafka's clients commit that."""
    leader_epoch: int = -1
    """Of the last message read, where the consumer knows it."""
    metadata: str = ""
    """The consumer's own note."""
    committed_ms: int = 0
    expires_ms: int | None = None
    """When it goes, whatever the group does; None leaves that to the broker's retention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a group's members do, as far as it matters for how long offsets are kept."""

    subscribed: frozenset[str] | None
    """Topics that its members read; None: they do not say, so it may be any."""
    empty_since_ms: int | None
    """Since when it has no members; None: it has, or never had any."""


class GroupOffsets:
    """What one group has committed."""

    __slots__ = ("_by_place",)

    def __init__(self) -> None:
        self._by_place: dict[Place, CommittedOffset] = {}

    def __len__(self) -> int:
        return len(self._by_place)

    def __contains__(self, place: Place) -> bool:
        return place in self._by_place

    def __iter__(self) -> Iterator[CommittedOffset]:
        return iter(self._by_place.values())

    def known(self, topic_id_of: Callable[[str], str | None]) -> list[CommittedOffset]:
        """What is committed in topics as they are now, also that there is no place."""
        return [
            committed
            for committed in self._by_place.values()
            if topic_id_of(committed.topic) == committed.topic_id
        ]

    def standing(self, topic_id_of: Callable[[str], str | None]) -> list[CommittedOffset]:
        """Where the group has a place, in topics as they are now."""
        return [committed for committed in self.known(topic_id_of) if committed.offset >= 0]

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        return self._by_place.get((topic, partition))

    def put(self, committed: CommittedOffset) -> bool:
        """Keep it in place of what was there before; says whether nothing was."""
        place = (committed.topic, committed.partition)
        is_new = place not in self._by_place
        self._by_place[place] = committed
        return is_new

    def remove(self, topic: str, partition: int) -> bool:
        """Says whether it was there."""
        return self._by_place.pop((topic, partition), None) is not None

    def copy(self) -> list[CommittedOffset]:
        return list(self._by_place.values())

    def expired(self, usage: Usage, retention_ms: int, now_ms: int) -> list[CommittedOffset]:
        """Those that have been kept for long enough. While nobody is in the group, the time runs
        from when the last member left, or from a commit that came after it, as an operator's."""
        if usage.subscribed is None:
            return []
        return [
            committed
            for committed in self._by_place.values()
            if committed.topic not in usage.subscribed
            and now_ms >= _expires_ms(committed, usage, retention_ms)
        ]


def _expires_ms(committed: CommittedOffset, usage: Usage, retention_ms: int) -> int:
    if committed.expires_ms is not None:
        return committed.expires_ms
    since_ms = committed.committed_ms
    if usage.empty_since_ms is not None:
        since_ms = max(since_ms, usage.empty_since_ms)
    return since_ms + retention_ms


def check_group_name(group: str) -> None:
    if not 0 < len(group) <= GROUP_NAME_LENGTH_MAX:
        raise InvalidGroup(
            f"A group name has {len(group)} characters: it must have 1 to {GROUP_NAME_LENGTH_MAX}."
        )


def check_metadata(committed: CommittedOffset) -> None:
    """Refuse a note that is too long to be kept."""
    # A character has four bytes at most: most metadata need not be encoded to be measured.
    if 4 * len(committed.metadata) <= OFFSET_METADATA_BYTES_MAX:
        return
    if len(committed.metadata.encode()) > OFFSET_METADATA_BYTES_MAX:
        raise OffsetMetadataTooLarge(
            f"The metadata of a committed offset is longer than {OFFSET_METADATA_BYTES_MAX} bytes."
        )
