"""Messages that are to wait: checked, given their times, and written so that each can be read
alone.

Not when they go. What a request brings as one batch is kept in several small ones, since its
messages may be due at different times: reading one must not mean reading all. The invariants:
nobody is told that a message waits before it is durable; a request that comes again under the same
token is answered like the first, and kept once; and nothing is kept that its topic would not take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.broker.delay.writer import DelayedWriter
from penstock.broker.producers.ids import draw_producer_id
from penstock.broker.topics.openings import Opened
from penstock.broker.topics.remote_admission import StagedAdmission
from penstock.coordination.delay.records import (
    HEAD,
    LANE,
    TOKEN_BYTES,
    Due,
    Fired,
    Head,
    LaneRecord,
    encode_head,
    encode_lane,
    key_hash,
    size_of,
)
from penstock.model.errors import (
    BatchTooLarge,
    Busy,
    InvalidDelay,
    InvalidRequest,
    OffsetOutOfRange,
    PenstockError,
)
from penstock.model.ids import check_public
from penstock.model.limits import (
    BATCH_BYTES_MAX,
    DELAY_LANES_MAX,
    DELAY_MS_MAX,
    DELAYED_BYTES_MAX,
    DELAYED_MESSAGES_MAX,
    DELAYED_PER_CALL_MAX,
    FRAME_BYTES_MAX,
    KIB,
    MIB,
    OPENED_BATCH_BYTES_MAX,
)
from penstock.net.clock import Clock
from penstock.protocol import penstock_pb2 as pb
from penstock.records import BatchBuilder, Headers, Message
from penstock.records.header import BatchHeader

Accepted = Callable[[PenstockError | None, Sequence[Due]], None]
"""Is told the error, or what each message is known by."""

# What is read to read one message, where neighbours are due at other times; and where they are not.
_KEPT_BYTES: Final = 4 * KIB
_KEPT_TOGETHER_BYTES: Final = 64 * KIB
# A clock that was put back by so much is waited for.
CLOCK_BACK_MS: Final = 1_000
# With what is written beside it, it still fits in a frame.
_MESSAGE_BYTES_MAX: Final = BATCH_BYTES_MAX - MIB


class Waiting(NamedTuple):
    """A message on its way into `__delayed`."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    due_ms: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a request asks for, which can be kept."""

    lane: LaneRecord
    messages: Sequence[Message]
    dues_ms: Sequence[int]
    token: bytes
    is_ordered: bool


class Intake:
    """One for each term that this broker leads. All calls come from the event loop."""

    def __init__(self, writer: DelayedWriter, admission: StagedAdmission, clock: Clock) -> None:
        self._writer = writer
        self._table = writer.store.table
        self._admission = admission
        self._clock = clock
        # Written, and perhaps not in the table yet.
        self._lanes: dict[tuple[str, int], int] = {}
        self._next_lane = 0
        self._flying_tokens: dict[bytes, list[Accepted]] = {}
        # What the table's `ordered` will say.
        self._flying_ordered: dict[bytes, int] = {}
        self._flying_messages = 0
        self._held_bytes = 0

    def accept(self, request: pb.DelayRequest, opened: Opened, accepted: Accepted) -> None:
        """Keep what a client sent, opened with its messages. Raises if it cannot be kept, and then
        does not call `accepted`. The end of the turn must follow."""
        check_public(request.topic)
        token = request.token
        if token and len(token) != TOKEN_BYTES:
            raise InvalidRequest(f"A token has {len(token)} bytes: give it {TOKEN_BYTES}, or none.")
        if token and self._is_known(token, accepted):
            return
        check_count_of_call(opened.header)
        topic_id, _, _ = self._admission.admit(
            request.topic, request.partition, opened.header, opened.batch, opened.by
        )
        messages = opened.messages
        dues_ms = self._dues_ms(request, len(messages))
        asked = _Asked(
            lane=LaneRecord(
                lane=0,
                topic=request.topic,
                topic_id=topic_id,
                partition=request.partition,
                producer_id=-1,
            ),
            messages=messages,
            dues_ms=dues_ms,
            token=token,
            is_ordered=request.ordered_by_key,
        )
        if not self._writer.is_held:
            self._keep(asked, accepted)
            return
        # For some milliseconds, now and then.
        held_bytes = opened.size_bytes
        if self._held_bytes and self._held_bytes + held_bytes > FRAME_BYTES_MAX:
            raise Busy("Delayed messages are being tidied: try again.")
        self._held_bytes += held_bytes

        def keep() -> None:
            self._held_bytes -= held_bytes
            try:
                # It may have come twice meanwhile.
                if not (token and self._is_known(token, accepted)):
                    self._keep(asked, accepted)
            except PenstockError as error:
                accepted(error, ())

        self._writer.when_free(keep)

    def publish(self, lane: LaneRecord, waiting: Waiting, fired: Fired, done: Accepted) -> None:
        """Keep the message of a schedule, which is due."""
        number, before = self._lane(lane)
        self._write(number, before, [waiting], done, fired=fired)
        self._note_lane(lane, number)

    def forget_lane(self, topic_id: str, partition: int) -> None:
        """It is being dropped."""
        self._lanes.pop((topic_id, partition), None)

    # --- times ---------------------------------------------------------------------------------

    def _dues_ms(self, request: pb.DelayRequest, count: int) -> Sequence[int]:
        """When each is due, as was asked for. InvalidDelay."""
        dues_ms: Sequence[int] = request.due_ms
        if len(dues_ms) not in (1, count):
            raise InvalidDelay(
                f"The call has {count} messages and {len(dues_ms)} times: give one for each, or "
                "one for all."
            )
        now_ms = self._clock.now_ms()
        if min(dues_ms) < 0:
            raise InvalidDelay(
                f"A delay is {min(dues_ms)} ms: give 0 or more, and times in ms since 1970."
            )
        if request.is_relative:
            dues_ms = [now_ms + delay_ms for delay_ms in dues_ms]
        if max(dues_ms) - now_ms > DELAY_MS_MAX:
            raise InvalidDelay(
                f"A message is to wait for {max(dues_ms) - now_ms} ms: ten years are the limit; "
                "check that the time is in ms."
            )
        return dues_ms if len(dues_ms) == count else [dues_ms[0]] * count

    def _place(self, due_ms: int) -> int:
        """When it can come at the earliest: not before what was passed, whatever the clock says."""
        passed_ms = self._writer.passed.due_ms
        now_ms = self._clock.now_ms()
        if due_ms <= now_ms:
            return max(now_ms, passed_ms)
        # The clock was put back. Rather late than early; but not by much, and then the frontier
        # is about to follow the clock (`Deliverer.follow_clock`).
        if passed_ms - due_ms > CLOCK_BACK_MS:
            raise Busy("The broker's clock was put back: it is being followed, try again.")
        return due_ms if due_ms > passed_ms else passed_ms + 1

    def _in_order(
        self, number: int, key: bytes | None, due_ms: int, ordered: dict[bytes, int]
    ) -> int:
        """Not before an earlier one of the same key. ordered: what this request adds."""
        if key is None:
            raise InvalidDelay("A message has no key: order is kept among those of the same key.")
        hashed = key_hash(number, key)
        before = (self._table.ordered, self._flying_ordered, ordered)
        if not any(hashed in known for known in before):
            self._check_room_for_keys(len(ordered) + 1)
        due_ms = max(due_ms, *(known.get(hashed, 0) for known in before))
        ordered[hashed] = due_ms
        return due_ms

    def _check_room_for_keys(self, new: int) -> None:
        table = self._table
        if table.has_room_for_keys(len(self._flying_ordered) + new):
            return
        raise Busy(
            f"Messages of {len(table.ordered)} keys wait in order, which is the limit: wait "
            "until some are delivered, or delay without order."
        )

    # --- keeping -------------------------------------------------------------------------------

    def _is_known(self, token: bytes, accepted: Accepted) -> bool:
        """Whether the request came before, and is answered, now or when the first is."""
        if token in self._flying_tokens:
            self._flying_tokens[token].append(accepted)
            return True
        dues, total = self._kept(token)
        if len(dues) < total or not total:
            return False
        accepted(None, dues)
        return True

    def _kept(self, token: bytes) -> tuple[list[Due], int]:
        """What the messages of a former request are known by, and how many it brought. A leader
        that was lost may have left the first of them alone."""
        if token not in self._table.tokens:
            return [], 0
        dues: list[Due] = []
        total = 0
        try:
            heads = self._writer.store.request_heads(token)
        except OffsetOutOfRange as error:
            raise InvalidRequest(
                "The request was kept long ago, and its receipts are no longer known: give a new "
                "one a token of its own."
            ) from error
        for base_offset, head in heads:
            total = head.request_messages
            if head.request_index == len(dues):
                dues += head.dues(base_offset)
        return dues, total

    def _keep(self, asked: _Asked, accepted: Accepted) -> None:
        self._writer.check_current()
        token = asked.token
        kept, total = self._kept(token)
        if kept and total != len(asked.messages):
            raise InvalidRequest(
                f"The token is that of a request with {total} messages: give each its own."
            )
        number, before = self._lane(asked.lane)
        ordered: dict[bytes, int] = {}
        waiting = self._waiting(asked, len(kept), number, ordered)
        self._check_room(waiting)

        def done(error: PenstockError | None, dues: Sequence[Due]) -> None:
            self._settle_ordered(ordered)
            told = self._flying_tokens.pop(token) if token else [accepted]
            for one in told:
                one(error, [*kept, *dues])

        self._write(
            number,
            before,
            waiting,
            done,
            token=token,
            skipped=len(kept),
            is_ordered=asked.is_ordered,
        )
        self._note_lane(asked.lane, number)
        self._flying_ordered |= ordered
        if token:
            self._flying_tokens[token] = [accepted]

    def _waiting(
        self, asked: _Asked, skipped: int, number: int, ordered: dict[bytes, int]
    ) -> list[Waiting]:
        """The messages that are not kept yet, with their times."""
        waiting = []
        times = zip(asked.messages[skipped:], asked.dues_ms[skipped:], strict=True)
        for message, asked_ms in times:
            key, value, headers = message.key, message.value, message.headers
            due_ms = self._place(asked_ms)
            if asked.is_ordered:
                due_ms = self._in_order(number, key, due_ms, ordered)
            size = size_of(key, value, headers)
            if size > _MESSAGE_BYTES_MAX:
                raise BatchTooLarge(
                    f"A message of {size} bytes is larger than the {_MESSAGE_BYTES_MAX} that can "
                    "wait: send less at once."
                )
            waiting.append(Waiting(key, value, headers, due_ms, size))
        return waiting

    def _settle_ordered(self, ordered: dict[bytes, int]) -> None:
        """The table says it by now, unless it was refused: then nobody asks any more."""
        flying = self._flying_ordered
        for hashed, due_ms in ordered.items():
            if flying.get(hashed) == due_ms:
                del flying[hashed]

    def _write(
        self,
        number: int,
        before: Sequence[bytearray],
        waiting: Sequence[Waiting],
        done: Accepted,
        *,
        token: bytes = b"",
        skipped: int = 0,
        is_ordered: bool = False,
        fired: Fired | None = None,
    ) -> None:
        """Raises, and then does not call `done`, if it cannot be written now. before: what has to
        be written first. skipped: so many messages of the request are kept already."""
        parts = list(kept_parts(waiting))
        now_ms = self._clock.now_ms()
        kept: list[bytearray] = []
        index = skipped
        for part in parts:
            head = Head(
                lane=number,
                due_ms=tuple([each.due_ms for each in part]),
                sizes=tuple([each.size for each in part]),
                is_ordered=is_ordered,
                token=token,
                request_index=index if token else 0,
                request_messages=skipped + len(waiting) if token else 0,
                fired=fired,
            )
            index += len(part)
            kept.append(build_kept(head, part, now_ms))
        dues: list[Due] = []

        def finished(error: PenstockError | None) -> None:
            self._flying_messages -= len(waiting)
            done(error, dues)

        offsets = self._writer.propose([*before, *kept], finished)
        self._flying_messages += len(waiting)
        self._writer.fly(min([each.due_ms for each in waiting]))
        for base_offset, part in zip(offsets[len(before) :], parts, strict=True):
            dues += [Due(each.due_ms, base_offset + 1 + index) for index, each in enumerate(part)]

    def _check_room(self, waiting: Sequence[Waiting]) -> None:
        count = self._table.pending + self._flying_messages + len(waiting)
        size_bytes = self._table.pending_bytes + sum([each.size for each in waiting])
        if count > DELAYED_MESSAGES_MAX or size_bytes > DELAYED_BYTES_MAX:
            raise Busy(
                f"{self._table.pending} messages of {self._table.pending_bytes} bytes wait: "
                f"{DELAYED_MESSAGES_MAX} and {DELAYED_BYTES_MAX} are the limit; wait until some "
                "are delivered."
            )

    def _is_new(self, key: tuple[str, int]) -> bool:
        return self._table.lane_of(*key) is None

    def _note_lane(self, lane: LaneRecord, number: int) -> None:
        """It is on its way, if the table does not have it."""
        key = lane.topic_id, lane.partition
        if self._is_new(key) and key not in self._lanes:
            self._lanes = {each: kept for each, kept in self._lanes.items() if self._is_new(each)}
            self._lanes[key] = number

    def _lane(self, lane: LaneRecord) -> tuple[int, list[bytearray]]:
        """Its number, and what has to be written first."""
        key = lane.topic_id, lane.partition
        known = self._table.lane_of(*key)
        number = self._lanes.get(key) if known is None else known.number
        if number is not None:
            return number, []
        if len(self._table.lanes) + len(self._lanes) >= DELAY_LANES_MAX:
            raise Busy(
                f"Messages wait for {DELAY_LANES_MAX} partitions, which is the limit: wait until "
                "some are delivered."
            )
        # One that is not used after all is never used again.
        number = self._next_lane = max(self._next_lane + 1, self._table.next_lane)
        record = LaneRecord(
            lane=number,
            topic=lane.topic,
            topic_id=lane.topic_id,
            partition=lane.partition,
            producer_id=draw_producer_id(),
        )
        return number, [self._writer.batch_of((LANE, encode_lane(record)))]


def check_count_of_call(header: BatchHeader) -> None:
    """InvalidDelay if a call brings too many messages."""
    if header.record_count > DELAYED_PER_CALL_MAX:
        raise InvalidDelay(
            f"The call brings {header.record_count} messages: {DELAYED_PER_CALL_MAX} is the "
            "limit, make several calls."
        )


def build_kept(head: Head, messages: Sequence[Waiting], now_ms: int) -> bytearray:
    """A batch of `__delayed`."""
    builder = BatchBuilder(OPENED_BATCH_BYTES_MAX)
    builder.append(now_ms, HEAD, encode_head(head))
    for message in messages:
        index = builder.append(now_ms, message.key, message.value, message.headers or None)
        assert index > 0, "a part has room for its messages"
    return builder.build()


def kept_parts(waiting: Sequence[Waiting]) -> Iterator[Sequence[Waiting]]:
    """What is kept together: few, or many that are due together."""
    start = size_bytes = 0
    is_together = True
    for at, message in enumerate(waiting):
        is_alike = is_together and message.due_ms == waiting[start].due_ms
        limit = _KEPT_TOGETHER_BYTES if is_alike else _KEPT_BYTES
        if at > start and size_bytes + message.size > limit:
            yield waiting[start:at]
            start, size_bytes, is_alike = at, 0, True
        size_bytes += message.size
        is_together = is_alike
    yield waiting[start:]
