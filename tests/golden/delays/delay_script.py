"""The language of the scenarios in tests/golden/delays: what `__delayed` says, record by record.

    lane NUMBER [producer=P]          a partition that messages wait for
    wait LANE DUE ...                 messages, in one batch; numbers are offsets
    move LANE DUE/NUMBER ...          written anew
    cancel LANE DUE/NUMBER
    decide DUE/NUMBER [LANE=COUNT ...]
    arrive LANE COUNT SEQUENCE DUE/NUMBER
    gone LANE ... | era DUE/NUMBER | checkpoint | restart
    taken DUE/NUMBER

Each puts out the table: the frontier, the floor, eras, and every lane with what waits, what is on
its way, and how far it has come. `restart` reads everything again from the last checkpoint on.
"""

from __future__ import annotations

from penstock.coordination.delay import records
from penstock.coordination.delay.records import (
    Arrived,
    Cancelled,
    Decided,
    Due,
    Head,
    LaneRecord,
    Share,
    encode_cancelled,
    encode_decided,
    encode_due,
    encode_head,
    encode_lane,
    encode_names,
)
from penstock.coordination.delay.table import DelayedTable

SIZE = 10


class DelayScript:
    """One log and the table that it makes; `interpret` is for `run_golden`."""

    def __init__(self) -> None:
        self.table = DelayedTable()
        self.log: list[tuple[int, bytes, bytes]] = []
        self.offset = 0

    def interpret(self, command: str) -> str:
        name, *words = command.split()
        if name == "taken":
            return str(self.table.is_taken(*_due(words[0])))
        if name == "restart":
            self._restart()
        else:
            kind, data, offsets = getattr(self, f"_{name}")(*words)
            self.log.append((self.offset, kind, data))
            self._apply(self.table, *self.log[-1])
            self.offset += offsets
        return self._show()

    def _restart(self) -> None:
        checkpoints = [at for at, one in enumerate(self.log) if one[1] == records.CHECKPOINT]
        table = DelayedTable()
        for one in self.log[checkpoints[-1] if checkpoints else 0 :]:
            self._apply(table, *one)
        self.table = table

    def _apply(self, table: DelayedTable, offset: int, kind: bytes, data: bytes) -> None:
        if kind == records.HEAD:
            table.apply_head(records.decode_head(data), offset, ())
        else:
            table.apply(kind, data, offset)

    def _lane(self, number: str, producer: str = "producer=7") -> tuple[bytes, bytes, int]:
        record = LaneRecord(
            lane=int(number),
            topic="orders",
            topic_id="id",
            partition=int(number),
            producer_id=int(producer.removeprefix("producer=")),
        )
        return records.LANE, encode_lane(record), 1

    def _wait(self, lane: str, *dues: str) -> tuple[bytes, bytes, int]:
        head = Head(lane=int(lane), due_ms=tuple(map(int, dues)), sizes=(SIZE,) * len(dues))
        return records.HEAD, encode_head(head), 1 + len(dues)

    def _move(self, lane: str, *dues: str) -> tuple[bytes, bytes, int]:
        moved = [_due(due) for due in dues]
        head = Head(
            lane=int(lane),
            due_ms=tuple(due.due_ms for due in moved),
            sizes=(SIZE,) * len(dues),
            numbers=tuple(due.number for due in moved),
        )
        return records.HEAD, encode_head(head), 1 + len(dues)

    def _cancel(self, lane: str, due: str) -> tuple[bytes, bytes, int]:
        return records.CANCELLED, encode_cancelled([Cancelled(_due(due), int(lane), SIZE)]), 1

    def _decide(self, frontier: str, *shares: str) -> tuple[bytes, bytes, int]:
        counts = [tuple(map(int, share.split("="))) for share in shares]
        decided = Decided(
            frontier=_due(frontier),
            shares=tuple(Share(lane, count, count * SIZE) for lane, count in counts),
        )
        return records.DECIDED, encode_decided(decided), 1

    def _arrive(self, lane: str, count: str, sequence: str, done: str) -> tuple[bytes, bytes, int]:
        known = self.table.lanes[int(lane)]
        arrived = Arrived(
            int(lane), int(count), int(count) * SIZE, known.producer_id, int(sequence), _due(done)
        )
        decided = Decided(frontier=self.table.frontier, arrived=(arrived,))
        return records.DECIDED, encode_decided(decided), 1

    def _gone(self, *lanes: str) -> tuple[bytes, bytes, int]:
        return records.LANES_GONE, encode_names([int(lane) for lane in lanes]), 1

    def _era(self, frontier: str) -> tuple[bytes, bytes, int]:
        return records.ERA, encode_due(_due(frontier)), 1

    def _checkpoint(self) -> tuple[bytes, bytes, int]:
        return records.CHECKPOINT, self.table.encode(), 1

    def _show(self) -> str:
        table = self.table
        lines = [f"frontier {_text(table.frontier)} floor {_text(table.floor)}"]
        lines += [f"era {_text(passed)} before offset {end}" for passed, end in table.eras]
        lines += [
            f"lane {lane.number}: {lane.pending} wait, {lane.due} on their way, "
            f"done {_text(lane.done)}, producer {lane.producer_id} has {lane.sequence}"
            for lane in table.lanes.values()
        ]
        return "\n".join(lines)


def _due(text: str) -> Due:
    due_ms, _, number = text.partition("/")
    return Due(int(due_ms), int(number))


def _text(due: Due) -> str:
    return f"{due.due_ms}/{due.number}"
