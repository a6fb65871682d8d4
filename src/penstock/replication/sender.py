"""A leader's log to its followers, and what else a replica has to say to others.

Not the choice of what to send: that is Raft's. The invariant: one turn reads a bounded stretch for
each follower, so that one that is far behind does not keep the others waiting.
"""

from __future__ import annotations

import logging

from penstock.model.errors import StorageError
from penstock.model.ids import PartitionId
from penstock.model.limits import APPEND_REQUESTS_PER_TURN_MAX
from penstock.raft.core import Raft
from penstock.raft.leadership import Leadership, Sending
from penstock.raft.messages import AppendRequest
from penstock.replication.copying import read_batches
from penstock.replication.transport import Surroundings
from penstock.storage.log import Log

logger = logging.getLogger(__name__)


class Sender:
    """Of one replica."""

    __slots__ = ("_bytes_max", "_log", "_partition", "_peers", "_raft")

    def __init__(self, raft: Raft, log: Log, partition: PartitionId, around: Surroundings) -> None:
        self._raft = raft
        self._log = log
        self._partition = partition
        self._peers = around.peers
        self._bytes_max = around.append_bytes_max

    def send(self, now_ms: int) -> None:
        """All that is due. The state that it follows from is saved."""
        leading = self._raft.leading
        if leading is not None:
            for _ in range(APPEND_REQUESTS_PER_TURN_MAX):
                # Followers mostly need the same, which is read once.
                parts: dict[int, tuple[bytes, int]] = {}
                due = leading.sendings(now_ms)
                for sending in due:
                    self._send_log(leading, sending, parts, now_ms)
                if not due:
                    break
        outbox = self._raft.state.outbox
        for node, message in outbox:
            self._peers.send(node, self._partition, message, b"")
        outbox.clear()

    def _send_log(
        self,
        leading: Leadership,
        sending: Sending,
        parts: dict[int, tuple[bytes, int]],
        now_ms: int,
    ) -> None:
        state, offset = self._raft.state, sending.previous_offset
        if offset not in parts:
            parts[offset] = self._read(offset, sending.end_offset)
        payload, end_offset = parts[offset]
        leading.sent(sending.node, end_offset, now_ms)
        request = AppendRequest(
            term=state.term,
            previous_term=sending.previous_term,
            previous_offset=offset,
            commit_offset=state.commit_offset,
        )
        self._peers.send(sending.node, self._partition, request, payload)

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
