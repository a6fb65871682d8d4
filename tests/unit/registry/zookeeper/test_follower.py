"""The part of the registry on ZooKeeper that needs none: what is stale. The rest is shown against a
real one, in tests/system."""

from __future__ import annotations

from penstock.registry.zookeeper.follower import _StalePaths


def test_stale_paths_are_gathered_until_they_are_taken() -> None:
    stale = _StalePaths()
    assert stale.add("/topics/a")
    assert not stale.add("/topics/b"), "the thread is told once"
    assert not stale.add("/topics/a")
    assert stale.take() == ["/topics/a", "/topics/b"]
    assert stale.take() == []
    assert stale.add("/topics/a")
    stale.add_everything()
    assert stale.take() is None
    assert stale.take() == []
