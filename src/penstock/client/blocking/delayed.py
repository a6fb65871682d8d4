"""Delayed messages and schedules for code without an event loop. A facade: see `Delayed` and
`Schedules`. The invariant: each call has ended when it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.client.admin.delayed import DelayedMessage, DelayedStatus
from penstock.client.admin.schedules import Schedule
from penstock.client.client import Client
from penstock.client.concurrency.loop_thread import LoopThread
from penstock.client.producing.receipts import Receipt


class BlockingDelayed:
    """See `Delayed`."""

    def __init__(self, thread: LoopThread, client: Client) -> None:
        self._run = thread.run
        self._delayed = client.delayed

    def publish_many(
        self, topic: str, messages: Iterable[DelayedMessage], *, ordered: bool = False
    ) -> list[Receipt]:
        return self._run(self._delayed.publish_many(topic, messages, ordered=ordered))

    def cancel(self, *ids: str) -> list[bool]:
        return self._run(self._delayed.cancel(*ids))

    def describe(self, topic: str = "") -> DelayedStatus:
        return self._run(self._delayed.describe(topic))


class BlockingSchedules:
    """See `Schedules`."""

    def __init__(self, thread: LoopThread, client: Client) -> None:
        self._run = thread.run
        self._schedules = client.schedules

    def put(
        self,
        name: str,
        cron: str,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        *,
        headers: Mapping[str, bytes] | None = None,
        time_zone: str = "",
    ) -> Schedule:
        return self._run(
            self._schedules.put(name, cron, topic, value, key, headers=headers, time_zone=time_zone)
        )

    def list(self) -> list[Schedule]:
        return self._run(self._schedules.list())

    def delete(self, name: str) -> None:
        self._run(self._schedules.delete(name))
