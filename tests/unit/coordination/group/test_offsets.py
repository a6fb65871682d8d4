"""What a group has committed, and when that is let go of (R-DEL-10)."""

from __future__ import annotations

import pytest

from penstock.coordination.group.offsets import (
    CommittedOffset,
    GroupOffsets,
    Usage,
    check_group_name,
    check_metadata,
)
from penstock.model.errors import InvalidGroup, OffsetMetadataTooLarge

DAY_MS = 24 * 60 * 60 * 1000


def committed(topic: str = "orders", partition: int = 0, offset: int = 1) -> CommittedOffset:
    return CommittedOffset(
        topic=topic, topic_id="id", partition=partition, offset=offset, committed_ms=100
    )


def usage(subscribed: set[str] | None, empty_since_ms: int | None = None) -> Usage:
    return Usage(
        subscribed=None if subscribed is None else frozenset(subscribed),
        empty_since_ms=empty_since_ms,
    )


def test_the_last_commit_counts() -> None:
    """R-DEL-10: offsets are kept per partition."""
    offsets = GroupOffsets()
    assert offsets.put(committed(offset=5))
    assert not offsets.put(committed(offset=9))
    assert offsets.put(committed(partition=1))
    assert len(offsets) == 2
    assert offsets.get("orders", 0) == committed(offset=9)
    assert offsets.get("orders", 7) is None
    assert ("orders", 1) in offsets
    assert offsets.remove("orders", 1)
    assert not offsets.remove("orders", 1)
    assert list(offsets) == offsets.copy() == [committed(offset=9)]


@pytest.mark.parametrize(
    ("members", "expires_ms"),
    [
        (usage(set()), 100 + DAY_MS),
        (usage(set(), empty_since_ms=5_000), 5_000 + DAY_MS),
        (usage(set(), empty_since_ms=50), 100 + DAY_MS),
        (usage({"events"}), 100 + DAY_MS),
        (usage({"orders"}), None),
        (usage(None), None),
    ],
    ids=[
        "never had members",
        "empty",
        "committed since",
        "reads something else",
        "reads it",
        "does not say",
    ],
)
def test_offsets_are_kept_for_a_while(members: Usage, expires_ms: int | None) -> None:
    """From the commit, or from when the last member left; never while a member reads the topic."""
    offsets = GroupOffsets()
    offsets.put(committed())
    if expires_ms is None:
        assert offsets.expired(members, DAY_MS, 100 * DAY_MS) == []
    else:
        assert offsets.expired(members, DAY_MS, expires_ms - 1) == []
        assert offsets.expired(members, DAY_MS, expires_ms) == [committed()]


def test_a_consumer_may_say_how_long() -> None:
    """OffsetCommit up to version 4 has a retention of its own."""
    offsets = GroupOffsets()
    offsets.put(committed()._replace(expires_ms=300))
    assert offsets.expired(usage(set(), 5_000), DAY_MS, 299) == []
    assert len(offsets.expired(usage(set(), 5_000), DAY_MS, 300)) == 1


def test_a_negative_offset_is_no_place() -> None:
    """Kafka's clients commit -1 and -2 for what they find out themselves."""
    offsets = GroupOffsets()
    offsets.put(committed(offset=-2))
    offsets.put(committed(offset=-1)._replace(partition=1))
    offsets.put(committed(offset=0)._replace(partition=2))
    offsets.put(committed(offset=4)._replace(partition=3, topic_id="before"))
    assert [one.partition for one in offsets.standing({"orders": "id"}.get)] == [2]
    assert [one.partition for one in offsets.known({"orders": "id"}.get)] == [0, 1, 2]
    assert len(offsets) == 4  # and told as they were committed to who asks by Kafka's protocol


def test_nonsense_is_refused() -> None:
    check_metadata(committed()._replace(metadata="x" * 4096))
    check_metadata(committed()._replace(metadata="ü" * 2048))
    for metadata in ("x" * 4097, "ü" * 2049):
        with pytest.raises(OffsetMetadataTooLarge):
            check_metadata(committed()._replace(metadata=metadata))
    check_group_name("g" * 255)
    for name in ("", "g" * 256):
        with pytest.raises(InvalidGroup):
            check_group_name(name)
