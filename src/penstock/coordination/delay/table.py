"""All that is known of delayed messages but the messages: a function of `__delayed`'s records.

Every broker that has a copy of the topic has one, and applies to it what is committed, in order.
Not which messages are due: they are too many, and are in `storage.due.index`. The invariants: the
frontier goes back only where an era begins, with nothing on its way; of a lane, everything up to
`done` has arrived, and what is due and has not lies between that and the frontier; a table that was
read from anywhere at or before a checkpoint is, from there on, the same as one that was read from
the beginning.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.coordination.delay import records
from penstock.coordination.delay.records import (
    DELAYED_TOPIC,
    NOTHING_DUE,
    Arrived,
    Cancelled,
    Decided,
    Due,
    Head,
    LaneRecord,
    Share,
    decode_cancelled,
    decode_decided,
    decode_due,
    decode_lane,
    decode_names,
    lane_prefix,
)
from penstock.coordination.delay.schedule import (
    NEVER,
    Schedule,
    as_fields,
    decode_schedule,
    from_fields,
)
from penstock.model.errors import CorruptLog
from penstock.model.limits import DELAY_ORDERED_KEYS_MAX, DELAY_TOKENS_MAX

_KEY_BYTES: Final = 20
_DUE_BYTES: Final = 8


@dataclass(slots=True)
class Lane:
    """A partition that messages wait for, and how far they came to it."""

    number: int
    topic: str
    topic_id: str
    partition: int
    producer_id: int
    sequence: int = 0
    """How many messages came under that producer id."""
    pending: int = 0
    pending_bytes: int = 0
    due: int = 0
    """How many of them are before the frontier: on their way."""
    done: Due = NOTHING_DUE
    """All up to here has arrived; while none is on its way, all up to the frontier has."""


class DelayedTable:
    """`apply_head` and `apply` for every batch, in the order of the topic."""

    def __init__(self) -> None:
        self.lanes: dict[int, Lane] = {}
        self.frontier = NOTHING_DUE
        self.eras: list[tuple[Due, int]] = []
        """(frontier, offset): what was accepted before the offset and lies before that frontier
        was taken, though the present frontier is not as far."""
        self.next_lane = 1
        self.schedules: dict[str, Schedule] = {}
        self.ordered: dict[bytes, int] = {}
        """By a key's hash: when the last message is due that comes in order. One that is cancelled
        keeps its place: an earlier one of its key may wait as well, of which nothing is known."""
        self.tokens: dict[bytes, tuple[int, ...]] = {}
        """Of the latest requests: from which offset to which their messages are; and from which to
        which those that were missing when the request came again."""
        self.pending = 0
        self.pending_bytes = 0
        self._numbers: dict[tuple[str, int], int] = {}
        self._pruned_ms = -1
        # Whether it saw the beginning, or a checkpoint.
        self.is_whole = False

    def lane_of(self, topic_id: str, partition: int) -> Lane | None:
        number = self._numbers.get((topic_id, partition))
        return None if number is None else self.lanes[number]

    @property
    def floor(self) -> Due:
        """Nobody needs a message up to here any more."""
        undone = (lane.done for lane in self.lanes.values() if lane.due)
        return min(undone, default=self.frontier)

    def is_done(self, lane: Lane, due: tuple[int, int]) -> bool:
        """Whether a message of the lane has arrived, as far as is written down."""
        done = lane.done if lane.due else self.frontier
        return due <= done or self.is_taken(*due)

    # --- what the topic says -------------------------------------------------------------------

    def apply_head(self, head: Head, base_offset: int, keys: Sequence[bytes]) -> None:
        """keys: hashes of the messages' keys, where their order is to be kept."""
        if head.numbers is None:
            lane = self.lanes.get(head.lane)
            if lane is not None:
                self._count(lane, len(head.sizes), sum(head.sizes))
        # Whatever became of the record that defines it: no other lane gets its messages.
        self.next_lane = max(self.next_lane, head.lane + 1)
        for key, due_ms in zip(keys, head.due_ms, strict=False):
            self.ordered[key] = max(self.ordered.get(key, 0), due_ms)
        if head.token:
            self._keep_token(head.token, base_offset, base_offset + 1 + len(head.sizes))
        if head.fired is not None:
            self._fired(head.fired.schedule, head.fired.next_due_ms)

    def _keep_token(self, token: bytes, base_offset: int, end_offset: int) -> None:
        *known, last = self.tokens.get(token, (base_offset, base_offset))
        if last != base_offset:
            known += [last, base_offset]
        self.tokens[token] = *known, end_offset
        if len(self.tokens) > DELAY_TOKENS_MAX:
            del self.tokens[next(iter(self.tokens))]

    def is_taken(self, due_ms: int, number: int) -> bool:
        """Whether a message behind the frontier was taken before the clock was put back."""
        return any(number < end and (due_ms, number) <= passed for passed, end in self.eras)

    def apply(self, kind: bytes, data: bytes, offset: int) -> None:
        """Any other record."""
        match kind:
            case records.ERA:
                self._begin_era(decode_due(data), offset)
            case records.LANE:
                self._define(decode_lane(data))
            case records.LANES_GONE:
                for number in decode_names(data):
                    self._drop(number)
            case records.CANCELLED:
                self._cancel(decode_cancelled(data))
            case records.DECIDED:
                self._decide(decode_decided(data))
            case records.SCHEDULE:
                schedule = decode_schedule(data)
                self.schedules[schedule.name] = schedule
            case records.SCHEDULE_GONE:
                self._forget_schedules(decode_names(data))
            case records.CHECKPOINT:
                self.load(data)
            case _:
                raise CorruptLog(f"A record of {DELAYED_TOPIC} is of no kind: {kind[:8]!r}.")

    def has_room_for_keys(self, count: int) -> bool:
        """Whether so many more keys can be known. Of those behind the frontier nothing need be."""
        past_ms = self.frontier.due_ms
        if len(self.ordered) + count > DELAY_ORDERED_KEYS_MAX and past_ms > self._pruned_ms:
            # Looking at all of them takes a while: not again in the same second.
            self._pruned_ms = past_ms + 1000
            self.ordered = {key: due for key, due in self.ordered.items() if due > past_ms}
        return len(self.ordered) + count <= DELAY_ORDERED_KEYS_MAX

    def _define(self, record: LaneRecord) -> None:
        lane = self.lanes.get(record.lane)
        if lane is not None:
            # It begins anew, under another producer id, with the first that has not arrived.
            lane.producer_id, lane.sequence = record.producer_id, 0
            return
        self.lanes[record.lane] = Lane(
            record.lane, record.topic, record.topic_id, record.partition, record.producer_id
        )
        self._numbers[record.topic_id, record.partition] = record.lane
        self.next_lane = max(self.next_lane, record.lane + 1)

    def _drop(self, number: int) -> None:
        lane = self.lanes.pop(number, None)
        if lane is not None:
            self.pending -= lane.pending
            self.pending_bytes -= lane.pending_bytes
            del self._numbers[lane.topic_id, lane.partition]
            prefix = lane_prefix(number)
            self.ordered = {
                key: due for key, due in self.ordered.items() if not key.startswith(prefix)
            }

    def _cancel(self, cancelled: Sequence[Cancelled]) -> None:
        for each in cancelled:
            lane = self.lanes.get(each.lane)
            if lane is not None:
                self._count(lane, -1, -each.size)

    def _forget_schedules(self, names: Sequence[str]) -> None:
        for name in names:
            self.schedules.pop(name, None)

    def _decide(self, decided: Decided) -> None:
        for arrived in decided.arrived:
            self._arrive(arrived)
        for share in decided.shares:
            self._share(share)
        self.frontier = max(self.frontier, decided.frontier)
        if self.eras:
            # Whoever looks for what has not arrived comes past what an era has taken.
            floor = self.floor
            self.eras = [era for era in self.eras if era[0] > floor]

    def _begin_era(self, frontier: Due, offset: int) -> None:
        self.eras.append((self.frontier, offset))
        self._pruned_ms = -1
        # They are delivered, so nothing need wait for them.
        past_ms = self.frontier.due_ms
        self.ordered = {key: due for key, due in self.ordered.items() if due > past_ms}
        self.frontier = frontier

    def _arrive(self, arrived: Arrived) -> None:
        lane = self.lanes.get(arrived.lane)
        if lane is None:
            return
        self._count(lane, -arrived.messages, -arrived.size_bytes)
        lane.due = max(lane.due - arrived.messages, 0)
        lane.producer_id, lane.sequence = arrived.producer_id, arrived.sequence
        lane.done = arrived.done

    def _share(self, share: Share) -> None:
        lane = self.lanes.get(share.lane)
        if lane is None:
            return
        if lane.due == 0:
            lane.done = self.frontier
        lane.due += share.messages

    def _fired(self, name: str, next_due_ms: int) -> None:
        schedule = self.schedules.get(name)
        if schedule is None:
            return  # it was deleted while the message was on its way
        if next_due_ms == NEVER:
            del self.schedules[name]
            return
        self.schedules[name] = replace(
            schedule, next_due_ms=next_due_ms, published=schedule.published + 1
        )

    def _count(self, lane: Lane, messages: int, size_bytes: int) -> None:
        # Read from amid the topic, more may go than was seen to come; a checkpoint follows.
        messages = max(messages, -lane.pending)
        size_bytes = max(size_bytes, -lane.pending_bytes)
        lane.pending += messages
        lane.pending_bytes += size_bytes
        self.pending += messages
        self.pending_bytes += size_bytes
        assert self.pending >= lane.pending >= 0, (self.pending, lane)
        assert self.pending_bytes >= lane.pending_bytes >= 0, (self.pending_bytes, lane)

    # --- checkpoints ---------------------------------------------------------------------------

    def encode(self) -> bytes:
        """All of it."""
        ordered = [key + due_ms.to_bytes(_DUE_BYTES, "big") for key, due_ms in self.ordered.items()]
        fields = {
            "frontier": self.frontier,
            "eras": [[*passed, end] for passed, end in self.eras],
            "next_lane": self.next_lane,
            "lanes": [
                [
                    *(lane.number, lane.topic, lane.topic_id, lane.partition, lane.producer_id),
                    *(lane.sequence, lane.pending, lane.pending_bytes, lane.due),
                    *lane.done,
                ]
                for lane in self.lanes.values()
            ],
            "schedules": [as_fields(schedule) for schedule in self.schedules.values()],
            "ordered": base64.b64encode(b"".join(ordered)).decode(),
            "tokens": [[token.hex(), *offsets] for token, offsets in self.tokens.items()],
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    def load(self, data: bytes) -> None:
        """What `encode` gave, in place of all that is known."""
        try:
            self._load(json.loads(data))
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise CorruptLog(
                f"A checkpoint of {DELAYED_TOPIC} cannot be read: {error!r}."
            ) from error

    def _load(self, fields: Any) -> None:
        lanes = [_lane(row) for row in fields["lanes"]]
        schedules = [from_fields(each) for each in fields["schedules"]]
        ordered, width = base64.b64decode(fields["ordered"]), _KEY_BYTES + _DUE_BYTES
        self.frontier = Due(*fields["frontier"])
        self.eras = [(Due(*era[:2]), era[2]) for era in fields["eras"]]
        self.next_lane = fields["next_lane"]
        self.lanes = {lane.number: lane for lane in lanes}
        self._numbers = {(lane.topic_id, lane.partition): lane.number for lane in lanes}
        self.pending = sum(lane.pending for lane in lanes)
        self.pending_bytes = sum(lane.pending_bytes for lane in lanes)
        self.schedules = {schedule.name: schedule for schedule in schedules}
        self.ordered = {
            ordered[at : at + _KEY_BYTES]: int.from_bytes(ordered[at + _KEY_BYTES : at + width])
            for at in range(0, len(ordered), width)
        }
        self.tokens = {bytes.fromhex(token): tuple(offsets) for token, *offsets in fields["tokens"]}
        self.is_whole = True


def _lane(row: Any) -> Lane:
    *fields, due_ms, number = row
    lane = Lane(*fields)
    lane.done = Due(due_ms, number)
    return lane
