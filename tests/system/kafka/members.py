"""Groups of member processes and what they tell: who owned what and when, and what was read.

The members are real clients in processes of their own, so that they can crash (SIGKILL) and stall
(SIGSTOP). Invariant that every test checks at its end: no two members owned a partition at the same
time; a member that was killed or stopped owns nothing from that moment on.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from tests.system.kafka.drivers.driver import PATIENCE_S
from tests.system.kafka.peer import SESSION_TIMEOUT_MS
from tests.system.kafka.provide import CLIENTS, Program, java, node

Partition = tuple[str, int]
_FOREVER_NS: Final = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A client and the way it takes part in groups."""

    client: str
    protocol: str = "range"
    """A client-side assignor of the classic protocol, or `consumer`: the protocol of KIP-848."""
    loses_when_leaving: bool = False
    """A message that comes while it leaves is committed and never shown."""


@dataclass(slots=True)
class Ownership:
    member: str
    start_ns: int
    end_ns: int = _FOREVER_NS


@dataclass(slots=True)
class Story:
    """What the members have told so far; filled by a thread for each."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    owned: dict[str, set[Partition]] = field(default_factory=dict)
    history: dict[Partition, list[Ownership]] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)
    rebalances: dict[str, int] = field(default_factory=dict)
    """How often each member was given an assignment, or more of one."""
    generations: dict[str, int] = field(default_factory=dict)
    """Of the last assignment of each member, of the clients that tell it: Java's."""

    def add(self, member: str, event: dict[str, Any]) -> None:
        with self.changed:
            self.register(member)
            at_ns = int(event["at_ns"])
            partitions = {(topic, number) for topic, number in event.get("partitions", ())}
            match event["event"]:
                case "assigned":
                    self.rebalances[member] += 1
                    if "generation" in event:
                        self.generations[member] = int(event["generation"])
                    self.owned[member] |= partitions
                    for partition in partitions:
                        self.history.setdefault(partition, []).append(Ownership(member, at_ns))
                case "revoked":
                    self._release(member, partitions, at_ns)
                case "revoked_all":
                    self._release(member, set(self.owned[member]), at_ns)
                case "read":
                    self.read.append(int(event["value"]))
            self.changed.notify_all()

    def register(self, member: str) -> None:
        self.owned.setdefault(member, set())
        self.rebalances.setdefault(member, 0)

    def end(self, member: str, at_ns: int) -> None:
        """It was killed or stopped: from then on it owns nothing."""
        with self.changed:
            self._release(member, set(self.owned[member]), at_ns)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        with self.changed:
            happened = self.changed.wait_for(condition, PATIENCE_S)
            owned = {member: len(partitions) for member, partitions in self.owned.items()}
            assert happened, f"{what}: not within {PATIENCE_S:.0f} s; owned: {owned}"

    def wait_until_read(self, count: int) -> None:
        self.wait(lambda: set(self.read) == set(range(count)), f"{count} messages are read")

    def wait_until_level(self, *members: str) -> None:
        """Until these have told of the same generation. Where partitions move one by one, a member
        that keeps what it has may tell of a rebalance after all others have."""
        self.wait(
            lambda: len({self.generations.get(member, member) for member in members}) == 1,
            f"{members} in one generation",
        )

    def check(self) -> None:
        """No partition had two owners at the same time."""
        for partition, owners in self.history.items():
            ordered = sorted(owners, key=lambda ownership: ownership.start_ns)
            for one, other in itertools.pairwise(ordered):
                same = one.member == other.member
                assert same or one.end_ns <= other.start_ns, f"{partition}: {one} and {other}"

    def _release(self, member: str, partitions: set[Partition], at_ns: int) -> None:
        self.owned[member] -= partitions
        for partition in partitions:
            for ownership in self.history.get(partition, ()):
                if ownership.member == member:
                    ownership.end_ns = min(ownership.end_ns, at_ns)


class Member:
    """One process; `kill`, `stop` and `go_on` are what happens to processes."""

    def __init__(self, name: str, variant: Variant, story: Story, request: dict[str, Any]) -> None:
        program = _program(variant.client)
        self.name = name
        self._story = story
        self._process = subprocess.Popen(
            program.command,
            env=program.whole_environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        story.register(name)
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        self._say(json.dumps({"call": "member", "protocol": variant.protocol, **request}))

    def close(self) -> None:
        """Leave the group in order."""
        assert self._process.stdin is not None
        self._say("")
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._thread.join()
        self._story.end(self.name, time.monotonic_ns())

    def kill(self) -> None:
        self._story.end(self.name, time.monotonic_ns())
        assert self._process.stdin is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._thread.join()
        # What it had said before is now heard, and is over.
        self._story.end(self.name, time.monotonic_ns())

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        self._story.end(self.name, time.monotonic_ns())

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._story.add(self.name, json.loads(line))
        self._process.stdout.close()


class Team:
    """Members of one group; whatever ends the `with`, their processes are gone."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], variant: Variant) -> None:
        self.story = Story()
        self._variant = variant
        self._members: list[Member] = []
        self._request: dict[str, Any] = {
            "bootstrap": bootstrap,
            "group": group,
            "topics": list(topics),
            "instance": None,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for member in self._members:
            if member.is_running:
                member.kill()

    def join(self, name: str, **changes: object) -> Member:
        member = Member(name, self._variant, self.story, {**self._request, **changes})
        self._members.append(member)
        return member

    def wait_until_read(self, count: int) -> None:
        """Until every number below this was read by somebody."""
        self.story.wait_until_read(count)

    def wait_until_shared(self, partitions: int, *members: Member) -> None:
        """Until these own all partitions between them, evenly."""

        def is_shared() -> bool:
            counts = [len(self.story.owned[member.name]) for member in members]
            return sum(counts) == partitions and max(counts) - min(counts) <= 1

        names = ", ".join(member.name for member in members)
        self.story.wait(is_shared, f"{partitions} partitions shared by {names}")


def _program(client: str) -> Program:
    if client == "java":
        return Program(command=(*java().command, "ForeignClient"))
    if client == "kafkajs":
        program = node()
        script = str(CLIENTS / "js" / "kafkajs.js")
        return Program(command=(*program.command, script), environment=program.environment)
    root = str(CLIENTS.parents[3])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    module = "kcat_main" if client == "kcat" else "member_main"
    command = (sys.executable, "-m", f"tests.system.kafka.{module}", client)
    return Program(command=command, environment={"PYTHONPATH": path})
