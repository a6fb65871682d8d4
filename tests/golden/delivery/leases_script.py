"""The language of the scenarios in tests/golden/delivery/leases: one partition, members, leaders.

Offsets are told as `3` or `3..7`, both ends included. Time is in ms; `time 3000` lets it pass from
one deadline to the next. Every command ends with where the group stands.

    group [lease=30000] [attempts=5] [backoff=1000] [backoff-max=300000] [window=10000] [ordered]
          [start=0]                               begins a group in a partition
    log 0..9 [skip=3..4] [5:key=a,priority=9,ttl=2000 ...]
                                                  the log has these, and more of them is wanted
    NAME lease N
    NAME acknowledge|release|reject|extend|fail|abandon RANGE [delay=MS] [jitter=0.5] [reason=text]
    lost NAME                                     its connection
    time MS
    save                                          a snapshot, written and durable
    write | durable | fails                       one step after the other, or not
    dead [N] | buried OFFSET | not-buried OFFSET MS
    leader [log-end=N] [unread]                   another takes over, from what is durable
    read                                          which it left unread until now
    forget OFFSET                                 retention took what is before
    attempts N                                    an operator changes how many there may be
"""

from __future__ import annotations

from dataclasses import replace

from penstock.coordination.delivery.shared_partition import SharePartition, Snapshot
from penstock.coordination.delivery.shared_settings import Settlement, ShareSettings
from penstock.coordination.delivery.window.message_details import MessageDetails
from penstock.coordination.delivery.window.message_state import Kind, State
from penstock.coordination.delivery.window.runs import Piece
from penstock.model.errors import PenstockError

KEYS = {name: number for number, name in enumerate("abcdefgh")}


def offsets(text: str) -> tuple[int, int]:
    """The first and the one behind the last."""
    first, _, last = text.partition("..")
    return int(first), int(last or first) + 1


def told(first: int, end: int) -> str:
    return str(first) if end == first + 1 else f"{first}..{end - 1}"


class LeasesScript:
    """One group in one partition; `interpret` is for `run_golden`."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.settings = ShareSettings()
        self.machine = SharePartition.fresh(0, self.settings)
        self.log_end = 0
        self.messages: dict[int, MessageDetails | None] = {}
        self.writing: Snapshot | None = None
        self.durable = self.machine.snapshot()
        self.is_reading = True
        self.lines: list[str] = []

    def interpret(self, command: str) -> str:  # noqa: C901 - a table of commands
        self.lines = []
        for line in command.splitlines():
            verb, *words = line.split()
            options = dict(word.split("=", 1) for word in words if "=" in word)
            match verb:
                case "group":
                    self._group(words, options)
                case "log":
                    self._log(words, options)
                case "time":
                    self._pass_time(int(words[0]))
                case "lost":
                    self.machine.drop_member(words[0], self.now_ms)
                case "save" | "write" | "durable" | "fails":
                    self._save(verb)
                case "dead":
                    self._dead(int(words[0]) if words else 100)
                case "buried":
                    self.machine.buried(int(words[0]))
                case "not-buried":
                    self.machine.not_buried(int(words[0]), self.now_ms + int(words[1]))
                case "leader":
                    self._take_over(int(options.get("log-end", self.log_end)))
                    self.is_reading = "unread" not in words
                case "read":
                    self.is_reading = True
                case "forget":
                    self.machine.forget_before(int(words[0]))
                case "attempts":
                    self.settings = replace(self.settings, attempts_max=int(words[0]))
                    self.machine.settings = self.settings
                case _:
                    self._member(verb, words, options)
            self._feed()
            self.machine.check()
        return "\n".join([*self.lines, *self._summary()])

    # --- commands ------------------------------------------------------------------------------

    def _group(self, words: list[str], options: dict[str, str]) -> None:
        self.settings = ShareSettings(
            lease_ms=int(options.get("lease", "30000")),
            attempts_max=int(options.get("attempts", "5")),
            backoff_ms=int(options.get("backoff", "1000")),
            backoff_ms_max=int(options.get("backoff-max", "300000")),
            is_ordered_by_key="ordered" in words,
            window_max=int(options.get("window", "10000")),
        )
        self.log_end = int(options.get("start", "0"))
        self.machine = SharePartition.fresh(self.log_end, self.settings)
        self.durable = self.machine.snapshot()

    def _log(self, words: list[str], options: dict[str, str]) -> None:
        first, end = offsets(words[0])
        assert first == self.log_end, (first, self.log_end)
        self.log_end = end
        self.messages.update((offset, MessageDetails(offset)) for offset in range(first, end))
        for word in words[1:]:
            if word.startswith("skip="):
                self.messages.update((offset, None) for offset in range(*offsets(options["skip"])))
                continue
            place, _, text = word.partition(":")
            known = dict(each.split("=") for each in text.split(","))
            expires_ms = self.now_ms + int(known["ttl"]) if "ttl" in known else None
            for offset in range(*offsets(place)):
                self.messages[offset] = MessageDetails(
                    offset,
                    KEYS.get(known.get("key", "")),
                    int(known.get("priority", "4")),
                    expires_ms,
                )

    def _feed(self) -> None:
        """As the shell does: whatever is wanted, and is there."""
        if not self.is_reading:
            return
        while (first := self.machine.wanted) is not None and first < self.log_end:
            offered = [(offset, self.messages[offset]) for offset in range(first, self.log_end)]
            self.machine.offer(
                first,
                self.log_end,
                self.now_ms,
                skipped=[(offset, offset + 1) for offset, each in offered if each is None],
                details=[
                    each
                    for offset, each in offered
                    if each is not None and each != MessageDetails(offset)
                ],
            )

    def _member(self, name: str, words: list[str], options: dict[str, str]) -> None:
        verb, what = words[0], words[1]
        if verb == "lease":
            leases = self.machine.lease(name, int(what), self.now_ms)
            given = [
                told(lease.first, lease.last + 1)
                + (f" (attempt {lease.attempt})" if lease.attempt > 1 else "")
                for lease in leases
            ]
            self.lines.append(f"{name} gets {', '.join(given) or 'nothing'}")
            return
        first, end = offsets(what)
        try:
            self.machine.settle(
                name,
                first,
                end - 1,
                Settlement[verb.upper()],
                self.now_ms,
                delay_ms=int(options.get("delay", "0")),
                jitter=float(options.get("jitter", "0")),
                reason=options.get("reason", ""),
            )
        except PenstockError as error:
            self.lines.append(f"{type(error).__name__}: {error}")

    def _pass_time(self, duration_ms: int) -> None:
        until_ms = self.now_ms + duration_ms
        while (deadline_ms := self.machine.deadline_ms) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.machine.expire(self.now_ms)
        self.now_ms = until_ms

    def _save(self, verb: str) -> None:
        if verb in ("save", "write"):
            self.writing = self.machine.snapshot()
        assert self.writing is not None
        if verb in ("save", "durable"):
            self.durable = self.writing
            self.machine.durable(self.writing)

    def _dead(self, messages_max: int) -> None:
        for offset, attempts, reason in self.machine.take_dead(messages_max):
            self.lines.append(f"dead: {offset} after {attempts}: {reason}")

    def _take_over(self, log_end: int) -> None:
        self.log_end = log_end
        self.machine = SharePartition.restore(
            self.durable.state, self.settings, self.now_ms, log_end
        )

    # --- what came of it -----------------------------------------------------------------------

    def _summary(self) -> list[str]:
        machine, parts = self.machine, []
        ceiling = machine.window.ready.ceiling
        parts.append(f"start {machine.start}, ceiling {ceiling}")
        if machine.ceiling_wanted is not None:
            parts.append(f"wants {machine.ceiling_wanted}")
        if machine.is_changed:
            parts.append("to be written")
        if machine.deadline_ms is not None:
            parts.append(f"wakes in {machine.deadline_ms - self.now_ms}")
        counts = machine.counts()
        totals = {
            "acknowledged": counts.acknowledged_total,
            "expired": counts.expired_total,
            "dead": counts.dead_total,
        }
        parts += [f"{number} {name}" for name, number in totals.items() if number]
        return [f"= {'; '.join(parts)}", *(self._told_run(piece) for piece in machine.window.runs)]

    def _told_run(self, piece: Piece) -> str:
        first, end, state = piece
        return f"  {told(first, end)} {self._told_state(state)}"

    def _told_state(self, state: State) -> str:
        words = [state.kind.name.lower().replace("_", " ")]
        if state.kind is Kind.LEASED:
            words.append(f"by {state.member}")
        if state.until_ms:
            words.append(f"for {state.until_ms - self.now_ms}")
        if state.attempts:
            words.append(f"after {state.attempts}")
        if state.kind is Kind.AVAILABLE and state.priority != 4:
            words.append(f"priority {state.priority}")
        if state.is_doubtful:
            words.append("(was in doubt)")
        return " ".join(words)
