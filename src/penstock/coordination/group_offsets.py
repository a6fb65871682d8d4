"""How far each group has read: the state, and the records that carry it in the internal topic.

Not membership or assignment. The invariant: the state is a function of the records applied, in
order; `checkpoint` writes records that lead to the same state, so that older ones may be deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from penstock.model.errors import InvalidRequest
from penstock.model.limits import GROUP_NAME_LENGTH_MAX, OFFSET_METADATA_BYTES_MAX

OFFSETS_TOPIC: Final = "__offsets"

Record = tuple[bytes, bytes]  # key and value


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The next offset a group will read in one partition, with the consumer's own note."""

    topic: str
    topic_id: str
    """A topic that was deleted and made again is another topic, where nobody has read yet."""
    partition: int
    offset: int
    metadata: str = ""


class GroupOffsets:
    """The offsets of every group. The shell proposes the records of `encode_commit` and calls
    `apply` for each record once it is committed, and for each at start-up."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[tuple[str, int], CommittedOffset]] = {}
        self.count = 0
        """Offsets of all groups together."""

    def groups(self) -> list[str]:
        return sorted(self._groups)

    def of_group(self, group: str, topics: frozenset[str] = frozenset()) -> list[CommittedOffset]:
        """What the group has committed, in these topics or (none named) in all."""
        committed = self._groups.get(group, {})
        return [committed[key] for key in sorted(committed) if not topics or key[0] in topics]

    def apply(self, key: bytes, value: bytes) -> None:
        """Take in one record of the internal topic."""
        where = json.loads(key)
        what = json.loads(value)
        topic, partition = where["topic"], where["partition"]
        committed = self._groups.setdefault(where["group"], {})
        self.count += (topic, partition) not in committed
        committed[topic, partition] = CommittedOffset(
            topic=topic,
            topic_id=what["topic_id"],
            partition=partition,
            offset=what["offset"],
            metadata=what["metadata"],
        )

    def count_new(self, group: str, offsets: Iterable[CommittedOffset]) -> int:
        """How many of these the group has not committed before."""
        committed = self._groups.get(group, {})
        return len({(offset.topic, offset.partition) for offset in offsets} - committed.keys())

    def forget(self, is_gone: Callable[[CommittedOffset], bool]) -> None:
        """Drop offsets of topics that are no more; a checkpoint then leaves them out."""
        for group in list(self._groups):
            kept = {
                key: offset for key, offset in self._groups[group].items() if not is_gone(offset)
            }
            self.count -= len(self._groups[group]) - len(kept)
            if kept:
                self._groups[group] = kept
            else:
                del self._groups[group]

    def checkpoint(self) -> Iterator[Record]:
        """Records that lead to this state from nothing."""
        for group, committed in self._groups.items():
            for offset in committed.values():
                yield encode_commit(group, offset)


def encode_commit(group: str, committed: CommittedOffset) -> Record:
    """The record that says so. JSON, so that a person can read the internal topic."""
    key = {"group": group, "topic": committed.topic, "partition": committed.partition}
    value = {
        "offset": committed.offset,
        "metadata": committed.metadata,
        "topic_id": committed.topic_id,
    }
    return json.dumps(key).encode(), json.dumps(value).encode()


def check_commit(group: str, committed: CommittedOffset) -> None:
    """Refuse what would not make sense to keep."""
    check_group_name(group)
    if committed.offset < 0:
        raise InvalidRequest(
            f"Group {group!r} commits offset {committed.offset} of {committed.topic}-"
            f"{committed.partition}: an offset is 0 or more."
        )
    if len(committed.metadata.encode()) > OFFSET_METADATA_BYTES_MAX:
        raise InvalidRequest(
            f"The metadata of a committed offset is longer than {OFFSET_METADATA_BYTES_MAX} bytes."
        )


def check_group_name(group: str) -> None:
    if not 0 < len(group) <= GROUP_NAME_LENGTH_MAX:
        raise InvalidRequest(
            f"A group name has {len(group)} characters: it must have 1 to {GROUP_NAME_LENGTH_MAX}."
        )
