"""`GroupAdmin` for code without an event loop: the same calls, each waiting for its result.

A facade, like the rest of `client.blocking.client`: it decides nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock.client.admin.groups import GroupDescription, GroupSettings, TopicSubscription
from penstock.client.client import Client
from penstock.client.concurrency.loop_thread import LoopThread


class BlockingGroupAdmin:
    """See `GroupAdmin`."""

    def __init__(self, thread: LoopThread, client: Client) -> None:
        self._run = thread.run
        self._groups = client.groups

    def describe_all(self) -> list[GroupDescription]:
        return self._run(self._groups.describe_all())

    def describe_those(self, names: Sequence[str]) -> list[GroupDescription]:
        return self._run(self._groups.describe_those(names))

    def describe(self, group: str) -> GroupDescription:
        return self._run(self._groups.describe(group))

    def delete(self, group: str) -> None:
        self._run(self._groups.delete(group))

    def move(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        self._run(self._groups.move(group, offsets))

    def subscriptions(self, topic: str = "") -> list[TopicSubscription]:
        return self._run(self._groups.subscriptions(topic))

    def settings(self, group: str) -> GroupSettings:
        return self._run(self._groups.settings(group))

    def configure(
        self, group: str, settings: Mapping[str, str], reset: Collection[str] = ()
    ) -> None:
        self._run(self._groups.configure(group, settings, reset))
