"""Fetch sessions (KIP-227): a consumer of many partitions says once which, and then only changes.

A session remembers what its client wants and what it was told of each partition. Pure but for the
clock and the random ids it is given. The invariant: a client that missed an answer has another
epoch than its session, is refused, and begins again; so nothing is held back from it by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from penstock.model.limits import FETCH_SESSION_PARTITIONS_MAX, FETCH_SESSIONS_MAX
from penstock.protocol.kafka.errors import ErrorCode

if TYPE_CHECKING:
    # Made when the first Kafka client comes: see `protocol.kafka.apis`.
    from penstock.protocol.kafka.messages.fetch import FetchPartition, FetchRequest

_FINAL_EPOCH: Final = -1
_INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
# A session unused for so long makes room for a new one where there is none, as in Kafka.
_IDLE_MS_MIN: Final = 120_000
_TOPIC_IDS_SINCE: Final = 13

Key = tuple[str | bytes, int]  # the topic as the client names it, by name or by id; the partition


class Interest:
    """A partition that a client fetches from, and what it was last told of it."""

    __slots__ = (
        "leader_epoch",
        "max_bytes",
        "offset",
        "partition",
        "told_high_watermark",
        "told_start_offset",
        "topic",
    )

    def __init__(self, topic: str | bytes, wanted: FetchPartition) -> None:
        self.topic = topic
        self.partition = wanted.partition
        # -1 before the first answer and after an error: what comes then is news.
        self.told_high_watermark = -1
        self.told_start_offset = -1
        self.update(wanted)

    def update(self, wanted: FetchPartition) -> None:
        self.offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        self.leader_epoch = wanted.current_leader_epoch


class FetchSession:
    """What one client wants, in the order in which it gets it."""

    __slots__ = ("by_ids", "epoch", "id", "interests", "used_ms")

    def __init__(self, session_id: int, by_ids: bool, interests: dict[Key, Interest]) -> None:
        self.id = session_id
        self.by_ids = by_ids
        self.interests = interests
        self.epoch = 1
        self.used_ms = 0

    def move_to_end(self, key: Key) -> None:
        """It got records: next time the others come first, so that none starves (KIP-74)."""
        # Another connection may have used the session while this fetch waited, and forgotten it.
        interest = self.interests.pop(key, None)
        if interest is not None:
            self.interests[key] = interest


class Opened:
    """How a fetch request is to be answered."""

    __slots__ = ("interests", "is_incremental", "session")

    def __init__(
        self, interests: list[Interest], session: FetchSession | None, is_incremental: bool
    ) -> None:
        self.interests = interests
        self.session = session
        self.is_incremental = is_incremental

    @property
    def session_id(self) -> int:
        return 0 if self.session is None else self.session.id


class FetchSessions:
    """Those of all clients, the longest unused first."""

    def __init__(self, now_ms: Callable[[], int], new_id: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}
        self._partition_count = 0

    def open(self, request: FetchRequest, version: int) -> Opened | ErrorCode:
        """What the request asks for, its session taken into account; or why it cannot be had."""
        if request.session_epoch in (_FINAL_EPOCH, _INITIAL_EPOCH):
            self._remove(request.session_id)
            interests = _interests(request, version)
            session = None
            if request.session_epoch == _INITIAL_EPOCH and interests:
                session = self._make(interests, version >= _TOPIC_IDS_SINCE)
            return Opened(list(interests.values()), session, is_incremental=False)
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_ids != (version >= _TOPIC_IDS_SINCE):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return self._go_on(session, request, version)

    def _go_on(
        self, session: FetchSession, request: FetchRequest, version: int
    ) -> Opened | ErrorCode:
        interests = session.interests
        count = len(interests)
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id if session.by_ids else forgotten.topic
            for partition in forgotten.partitions:
                interests.pop((topic, partition), None)
        for key, wanted in _partitions(request, version):
            known = interests.get(key)
            if known is None:
                interests[key] = Interest(key[0], wanted)
            else:
                known.update(wanted)
        self._partition_count += len(interests) - count
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        if not interests:
            self._remove(session.id)
            return Opened([], None, is_incremental=True)
        if self._partition_count > FETCH_SESSION_PARTITIONS_MAX:
            # Its client begins again, with a session where there is room, or else without one.
            self._remove(session.id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        session.used_ms = self._now_ms()
        self._sessions[session.id] = self._sessions.pop(session.id)
        return Opened(list(interests.values()), session, is_incremental=True)

    def _make(self, interests: dict[Key, Interest], by_ids: bool) -> FetchSession | None:
        """A new session, or None where there is no room: then the client names all every time."""
        now_ms = self._now_ms()
        while (
            len(self._sessions) >= FETCH_SESSIONS_MAX
            or self._partition_count + len(interests) > FETCH_SESSION_PARTITIONS_MAX
        ):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < _IDLE_MS_MIN:
                return None
            self._remove(oldest.id)
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session = FetchSession(session_id, by_ids, interests)
        session.used_ms = now_ms
        self._sessions[session_id] = session
        self._partition_count += len(interests)
        return session

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.interests)


def _interests(request: FetchRequest, version: int) -> dict[Key, Interest]:
    return {key: Interest(key[0], wanted) for key, wanted in _partitions(request, version)}


def _partitions(request: FetchRequest, version: int) -> Iterable[tuple[Key, FetchPartition]]:
    by_ids = version >= _TOPIC_IDS_SINCE
    for topic in request.topics:
        name = topic.topic_id if by_ids else topic.topic
        for wanted in topic.partitions:
            yield (name, wanted.partition), wanted
