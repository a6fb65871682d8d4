"""What a leader knows of one follower: how far its log agrees, and what is on the way to it.

The invariant: everything before `match_offset` is durable there and equal to the leader's;
`match_offset` never goes back while the leader leads. While it is not known where the logs agree
(`is_probing`), one request at a time is on the way; afterwards as many as the window holds.
"""

from __future__ import annotations

from collections import deque

from penstock.model.limits import APPEND_REQUESTS_ON_THE_WAY_MAX


class Progress:
    """One follower, voter or learner."""

    __slots__ = (
        "_on_the_way",
        "_seen_end",
        "_seen_ms",
        "asked_ms",
        "caught_up_ms",
        "heard_ms",
        "is_probing",
        "is_resetting",
        "match_offset",
        "next_offset",
    )

    def __init__(self, next_offset: int, now_ms: int) -> None:
        self.match_offset = 0
        self.next_offset = next_offset
        self.is_probing = True
        self.is_resetting = False
        # The ends of requests that were not answered, and when the last of them left.
        self._on_the_way: deque[int] = deque()
        self.asked_ms = now_ms
        self.heard_ms = now_ms
        # When it last had all that the leader had at that time, as far as is known.
        self.caught_up_ms = -1
        self._seen_end = next_offset
        self._seen_ms = now_ms

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is due."""
        return bool(self._on_the_way) or self.is_resetting

    def may_send(self, end_offset: int) -> bool:
        """Whether a request should leave now, from a log that ends at the offset."""
        if self.is_resetting:
            return False
        if self.is_probing:
            return not self._on_the_way
        has_room = len(self._on_the_way) < APPEND_REQUESTS_ON_THE_WAY_MAX
        return self.next_offset < end_offset and has_room

    def is_asked(self, offset: int) -> bool:
        """Whether the logs may still be thought to agree at the offset, which was asked for."""
        if self.is_probing:
            return offset == self.next_offset
        return self.match_offset < offset <= self.next_offset

    def sent(self, end_offset: int, now_ms: int) -> None:
        """A request for everything up to the offset is on its way."""
        self._on_the_way.append(end_offset)
        self.asked_ms = now_ms
        if not self.is_probing:
            self.next_offset = end_offset

    def matched(self, end_offset: int) -> bool:
        """Everything up to the offset is durable there. Whether that is news."""
        while self._on_the_way and self._on_the_way[0] <= end_offset:
            self._on_the_way.popleft()
        is_news = end_offset > self.match_offset
        self.match_offset = max(self.match_offset, end_offset)
        # Less than was asked for is no answer to the question: it is what was known anyway.
        if self.is_probing and end_offset >= self.next_offset:
            self._on_the_way.clear()
            self.is_probing = self.is_resetting = False
        self.next_offset = max(self.next_offset, self.match_offset)
        return is_news

    def compare(self, leader_end_offset: int, now_ms: int) -> None:
        """Under load a follower never has everything; it has what there was a moment ago."""
        if self.match_offset == leader_end_offset:
            self.caught_up_ms = now_ms
        elif self.match_offset >= self._seen_end:
            self.caught_up_ms = self._seen_ms
        if self.match_offset >= self._seen_end:
            self._seen_end = leader_end_offset
            self._seen_ms = now_ms

    def look_at(self, offset: int) -> None:
        """The logs do not agree where they were thought to: ask there next."""
        self.is_probing = True
        self._on_the_way.clear()
        self.next_offset = max(offset, self.match_offset)

    def start_over(self) -> None:
        """What was on the way may be lost: ask again, or begin where the logs certainly agree."""
        self.is_resetting = False
        self.look_at(self.next_offset if self.is_probing else self.match_offset)

    def reset(self, start_offset: int, now_ms: int) -> None:
        """It was told to begin anew at the leader's start."""
        self.look_at(start_offset)
        self.is_resetting = True
        self.asked_ms = now_ms
