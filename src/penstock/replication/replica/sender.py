"""A leader's log to its followers, and what else a replica has to say to others.

Not the choice of what to send: that is Raft's. The invariants: one turn reads a bounded stretch for
each follower, so that one that is far behind does not keep the others waiting; and what such a one
is sent is within the broker's quota (`replication.replica.catch_up`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from penstock.model.errors import StorageError
from penstock.model.ids import PartitionId
from penstock.model.limits import APPEND_REQUESTS_PER_TURN_MAX
from penstock.raft.core import Raft
from penstock.raft.leadership import Leadership, Sending
from penstock.raft.membership import Node
from penstock.raft.messages import AppendRequest, ResetRequest
from penstock.replication.replica.copying import read_batches
from penstock.replication.replica.transport import Surroundings
from penstock.storage.log.log import Log

logger = logging.getLogger(__name__)

# A follower that had everything so lately is not behind: it gets what is written as it is written.
_LIVE_LAG_MS: Final = 1_000
# When to look again whether there is room on the way to a follower.
_CROWDED_MS: Final = 20


class Sender:
    """Of one replica."""

    __slots__ = (
        "_bytes_max",
        "_log",
        "_partition",
        "_peers",
        "_quota",
        "_raft",
        "_snapshot",
        "held_until_ms",
    )

    def __init__(
        self,
        raft: Raft,
        log: Log,
        partition: PartitionId,
        around: Surroundings,
        snapshot: Callable[[], bytes | None],
    ) -> None:
        """snapshot: what is to be known of the log before its start; None if not now."""
        self._raft = raft
        self._log = log
        self._partition = partition
        self._peers = around.peers
        self._bytes_max = around.append_bytes_max
        self._quota = around.catch_up
        self._snapshot = snapshot
        # When to try again what was not sent, though it is due.
        self.held_until_ms: int | None = None

    def send(self, now_ms: int) -> None:
        """All that is due. The state that it follows from is saved."""
        if self.held_until_ms is not None and self.held_until_ms <= now_ms:
            self.held_until_ms = None
        leading = self._raft.leading
        if leading is not None:
            for _ in range(APPEND_REQUESTS_PER_TURN_MAX):
                if not self._send_round(leading, now_ms):
                    break
        outbox = self._raft.state.outbox
        for node, message in outbox:
            payload: bytes | None = b""
            if isinstance(message, ResetRequest):
                payload = self._snapshot()
            # Without one it is tried again: Raft asks again what is not answered.
            if payload is not None:
                self._peers.send(node, self._partition, message, payload)
        outbox.clear()

    def _send_round(self, leading: Leadership, now_ms: int) -> bool:
        """One request to each follower that is to get one; whether there was any."""
        is_any = False
        # Followers mostly need the same, which is read once.
        parts: dict[int, tuple[bytes, int]] = {}
        for sending in leading.sendings(now_ms):
            is_behind = self._is_behind(leading, sending, now_ms)
            if is_behind and self._is_held(sending.node, now_ms):
                continue
            is_any = True
            size_bytes = self._send_log(leading, sending, parts, now_ms)
            if is_behind:
                self._quota.spend(size_bytes)
        return is_any

    def _is_behind(self, leading: Leadership, sending: Sending, now_ms: int) -> bool:
        """Whether the follower lacks more than what was written just now."""
        if leading.followers[sending.node].caught_up_ms >= now_ms - _LIVE_LAG_MS:
            return False
        try:
            lacking_bytes = self._log.bytes_between(sending.previous_offset, sending.end_offset)
        except StorageError:
            # Whoever reads it says so.
            return False
        return lacking_bytes > self._bytes_max

    def _is_held(self, node: Node, now_ms: int) -> bool:
        """Whether others come first."""
        if self.held_until_ms is None:
            if not self._peers.has_room(node):
                self.held_until_ms = now_ms + _CROWDED_MS
            elif not self._quota.is_open(now_ms):
                self.held_until_ms = self._quota.turn_ms(now_ms)
        return self.held_until_ms is not None

    def _send_log(
        self,
        leading: Leadership,
        sending: Sending,
        parts: dict[int, tuple[bytes, int]],
        now_ms: int,
    ) -> int:
        """How many bytes of the log that was."""
        state, offset = self._raft.state, sending.previous_offset
        if offset not in parts:
            parts[offset] = self._read(offset, sending.end_offset)
        payload, end_offset = parts[offset]
        assert not payload or offset < end_offset <= sending.end_offset, (end_offset, sending)
        leading.sent(sending.node, end_offset, now_ms)
        request = AppendRequest(
            term=state.term,
            previous_term=sending.previous_term,
            previous_offset=offset,
            commit_offset=state.commit_offset,
        )
        self._peers.send(sending.node, self._partition, request, payload)
        return len(payload)

    def _read(self, offset: int, end_offset: int) -> tuple[bytes, int]:
        if offset >= end_offset:
            return b"", offset
        terms = self._raft.state.terms
        try:
            return read_batches(self._log, terms, offset, end_offset, self._bytes_max)
        except StorageError as error:
            # Other followers, and other parts of the log, are served all the same.
            logger.error("%s cannot be copied from offset %d: %s", self._log.name, offset, error)
            return b"", offset
