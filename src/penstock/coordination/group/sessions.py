"""Until when each member is believed to be alive.

Not what happens to one that is not. The invariant: `wake_ms` is never later than the earliest
deadline. It may be earlier, since a heartbeat moves one deadline and does not look at the others:
a heartbeat costs the same in a group of ten and of ten thousand.
"""

from __future__ import annotations


class Sessions:
    """The deadline of each member that has one."""

    def __init__(self) -> None:
        self._deadlines_ms: dict[str, int] = {}
        self.wake_ms: int | None = None
        """When to call `expire` next; None when nobody has a deadline."""

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._deadlines_ms

    def deadline_ms(self, member_id: str) -> int:
        """Of one that has one."""
        return self._deadlines_ms[member_id]

    def set(self, member_id: str, deadline_ms: int) -> None:
        self._deadlines_ms[member_id] = deadline_ms
        if self.wake_ms is None or deadline_ms < self.wake_ms:
            self.wake_ms = deadline_ms

    def cancel(self, member_id: str) -> None:
        self._deadlines_ms.pop(member_id, None)
        if not self._deadlines_ms:
            self.wake_ms = None

    def expire(self, now_ms: int) -> list[str]:
        """The members whose time is over, which have no deadline any more."""
        if self.wake_ms is None or now_ms < self.wake_ms:
            return []
        expired = [name for name, at_ms in self._deadlines_ms.items() if at_ms <= now_ms]
        for member_id in expired:
            del self._deadlines_ms[member_id]
        self.wake_ms = min(self._deadlines_ms.values(), default=None)
        return expired
