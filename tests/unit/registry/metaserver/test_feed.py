"""The latest changes lead from a version to the latest without a gap, or are not given."""

from __future__ import annotations

from penstock.model.limits import META_FEED_BYTES_MAX, META_FEED_CHANGES_MAX
from penstock.registry.metaserver.feed import Feed


def test_the_changes_after_a_version() -> None:
    feed = Feed()
    assert feed.since(3) is None
    for version in (4, 5, 6):
        feed.add(version, b"%d" % version)
    assert feed.since(2) is None
    assert feed.since(3) == [b"4", b"5", b"6"]
    assert feed.since(5) == [b"6"]
    assert feed.since(6) == []
    assert feed.since(7) is None, "nobody has that yet"


def test_a_gap_is_not_papered_over() -> None:
    feed = Feed()
    feed.add(4, b"4")
    feed.add(9, b"9")
    assert feed.since(3) is None
    assert feed.since(8) == [b"9"]


def test_it_is_bounded() -> None:
    feed = Feed()
    for version in range(META_FEED_CHANGES_MAX + 5):
        feed.add(version, b"x")
    kept = feed.since(4)
    assert kept is not None
    assert len(kept) == META_FEED_CHANGES_MAX
    assert feed.since(3) is None
    feed.add(META_FEED_CHANGES_MAX + 5, bytes(META_FEED_BYTES_MAX))
    assert feed.since(META_FEED_CHANGES_MAX + 4) is not None
    assert feed.since(META_FEED_CHANGES_MAX + 3) is None
