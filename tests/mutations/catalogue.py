"""All known bugs: those that every cluster must be safe from, and the others.

The invariant: no two have the same name.
"""

from __future__ import annotations

from typing import Final

from tests.mutations.client import CLIENT
from tests.mutations.coordinators import COORDINATORS
from tests.mutations.delivery import DELIVERY
from tests.mutations.mutation import Edit, Mutation, one
from tests.mutations.raft import RAFT
from tests.mutations.shell import SHELL

_ZOOKEEPER_TESTS: Final = ("tests/unit/registry", "tests/system/test_zookeeper_failures.py")

NAMED: Final = (
    Mutation(
        "ack before flush",
        (
            Edit(
                "replication/replica/replica.py",
                'self._patience.on_taken()\n            if self.durability == "os":',
                "self._patience.on_taken()\n            if True:",
            ),
            Edit(
                "replication/replica/replica.py",
                'if self.durability == "os":\n            self.durable_offset = '
                "self.log.written_offset\n        if self.listener",
                "if True:\n            self.durable_offset = "
                "self.log.written_offset\n        if self.listener",
            ),
        ),
    ),
    one("vote not persisted", "raft/state.py", "vote=self.vote,", "vote=None,"),
    one(
        "commit of an old term's entry by counting",
        "raft/leadership.py",
        "offset > state.commit_offset and state.terms.term_before(offset) == state.term",
        "offset > state.commit_offset",
    ),
    one(
        "no fencing of a stale leader",
        "raft/core.py",
        "        if term < state.term:\n            state.send(sender, AppendAnswer(",
        "        if False:\n            state.send(sender, AppendAnswer(",
    ),
    Mutation(
        "truncation below the commit",
        (
            Edit("raft/following.py", "if offset < self._verified_offset:", "if False:"),
            Edit(
                "raft/following.py",
                "return is_there and terms.term_before(batch.end_offset) == batch.term",
                "return False",
            ),
            Edit(
                "raft/state.py",
                "assert offset >= self.commit_offset, (offset, self.commit_offset)\n"
                "        self.terms.truncate",
                "self.terms.truncate",
            ),
        ),
    ),
    one(
        "skipped CRC",
        "replication/replica/copying.py",
        "header = check_batch(payload, position)",
        "header = read_header(payload, position)",
    ),
    one(
        "lost session ignored",
        "registry/zookeeper/follower.py",
        '        if state != "connected":\n            self.lease.end()',
        '        if state != "connected":',
        _ZOOKEEPER_TESTS,
    ),
    one(
        "heartbeat counted as ack",
        "raft/core.py",
        "progress.heard_ms = now_ms\n        elif",
        "progress.heard_ms = now_ms\n                progress.matched(self.state.terms.end_offset)"
        "\n                self.part.commit()\n        elif",
    ),
    one(
        "stale read past the watermark",
        "replication/replica/replica.py",
        "return self.log.read(offset, max_bytes, self.high_watermark)",
        "return self.log.read(offset, max_bytes, self.log.written_offset)",
    ),
    one(
        "two leaders allowed",
        "raft/core.py",
        "and state.vote in (None, sender)",
        "and state.vote != state.me",
    ),
)

AREAS: Final = {
    "named": NAMED,
    "shell": SHELL,
    "raft": RAFT,
    "delivery": DELIVERY,
    "coordinators": COORDINATORS,
    "client": CLIENT,
}
MUTATIONS: Final = tuple(mutation for area in AREAS.values() for mutation in area)
