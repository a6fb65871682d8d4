"""What is said of messages, by their own methods: the one face of two kinds of ledger.

A reader that has its partitions for itself moves its group's place in them (`consuming/ledger`); a
member of a shared group says of each message what became of it (`sharing/ledger`). Not how brokers
are told: a `teller` does that. The invariant: what is said is taken at once, and durable on a
broker when the consumer's `commit` has returned.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import ClassVar

from penstock.records import Message

Coordinates = tuple[str, int, int]
"""Which message: its topic, partition and offset."""


class Ledger(ABC):
    """What `message.ack()` and the others call."""

    group_counts_attempts: ClassVar[bool]
    """Whether who says that a message failed gets it again; else it is tried again where it is."""

    def __init__(self) -> None:
        self._said: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """What is to be awaited where there is nothing to wait for."""
        self._said.set_result(None)

    @abstractmethod
    def attempt(self, message: Message) -> int:
        """How often it was handed out, this time included."""

    @abstractmethod
    def acknowledge(self, message: Message) -> Awaitable[None]:
        """It is dealt with. Returns at once; the broker is told shortly after, by `commit` or when
        the consumer closes."""

    @abstractmethod
    def release(self, message: Message, delay_s: float = 0.0) -> Awaitable[None]:
        """Somebody else may have it, now or after some time."""

    @abstractmethod
    def extend(self, message: Message) -> Awaitable[None]:
        """It is being dealt with. Returns when the lease is longer."""

    @abstractmethod
    def fail(self, message: Message, reason: str = "") -> Awaitable[None]:
        """It could not be dealt with this time. Returns at once."""

    @abstractmethod
    def reject(self, message: Message, reason: str = "") -> Awaitable[None]:
        """It never can be dealt with: to the group's dead letters."""
