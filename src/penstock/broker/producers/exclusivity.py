"""Lets only the producer that has claimed a topic write to it, on the leaders of its partitions
(R-CORE-6).

Who that is the coordinator of groups decides; here its answers are asked for, believed for a short
while (`coordination.producers.exclusivity`) and renewed as long as there is traffic. The
invariants: a batch is appended in the same turn in which it was found that its producer may write;
the batches of one claim are judged in the order in which they came, and nobody waits for those of
another; and no batch waits for longer than CLAIM_WAIT_MS_MAX, nor more of them than
CLAIM_WAITING_BYTES_MAX.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from penstock.broker.partitions.admission import Opening
from penstock.broker.partitions.partition import Append, Partition
from penstock.broker.topics.openings import Opened
from penstock.coordination.producers.exclusivity import ClaimView, Verdict
from penstock.model.errors import Busy, InternalError, NotLeader, PenstockError, ShuttingDown
from penstock.model.limits import CLAIM_WAIT_MS_MAX, CLAIM_WAITING_BYTES_MAX
from penstock.net.clock import Clock
from penstock.protocol import penstock_pb2 as pb
from penstock.replication.disk.driver import Driver

logger = logging.getLogger(__name__)

Ask = Callable[[str], Awaitable[pb.CheckClaimResponse]]
"""Asks the coordinator about the topic of this id."""

# How long one question may take, and how soon the next follows one that settled nothing.
_ANSWER_S: Final = 1.0
_PAUSE_S: Final = 0.02
# Topics whose claims are remembered although nobody writes to them.
_TOPICS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A batch that nobody knows yet whether to take."""

    partition: Partition
    claim: int
    batch: memoryview
    append: Append
    acks: int
    came_s: float
    opened_by: Opening | None


class _Door:
    """Of one topic."""

    def __init__(self, topic_id: str) -> None:
        self.topic_id = topic_id
        self.view = ClaimView()
        # By claim: whoever makes one up must not hold up who has one.
        self.waiting: dict[int, deque[_Waiting]] = {}
        self.is_asking = False


class Claims:
    """One per broker. All calls come from the event loop."""

    def __init__(self, ask: Ask, driver: Driver, clock: Clock) -> None:
        self._ask_coordinator = ask
        self._driver = driver
        self._clock = clock
        self._doors: dict[str, _Door] = {}
        self._waiting_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._asking: set[asyncio.Task[None]] = set()

    def append_opened(
        self, partition: Partition, claim: int, append: Append, acks: int, opened: Opened
    ) -> None:
        """The same as `append` for a batch that was opened first."""
        self.append(partition, claim, opened.batch, append, acks, opened.by)

    def append(
        self,
        partition: Partition,
        claim: int,
        batch: memoryview,
        append: Append,
        acks: int,
        opened_by: Opening | None = None,
    ) -> None:
        """As `Partition.append`, for a topic that only the holder of the claim may write to."""
        now_s = self._clock.monotonic()
        door = self._door(partition.topic_id)
        if claim not in door.waiting:
            match door.view.judge(claim, now_s, now_s):
                case Verdict.MAY_WRITE:
                    if door.view.is_due(now_s):
                        self._ask(door)
                    partition.append_known(
                        batch, append, acks, is_claimed=True, opened_by=opened_by
                    )
                    return
                case Verdict.REFUSED:
                    raise door.view.refusal(partition.name.topic, claim)
        if self._waiting_bytes + len(batch) > CLAIM_WAITING_BYTES_MAX:
            raise Busy("Too much waits to be told who may write: try again.")
        # Where it was received is overwritten when this turn ends.
        kept = memoryview(bytearray(batch))
        waiting = _Waiting(partition, claim, kept, append, acks, now_s, opened_by)
        door.waiting.setdefault(claim, deque()).append(waiting)
        self._waiting_bytes += len(kept)
        self._ask(door)

    async def stop(self) -> None:
        """What waits is refused."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        for door in self._doors.values():
            self._refuse_waiting(door, ShuttingDown())

    def _door(self, topic_id: str) -> _Door:
        door = self._doors.get(topic_id)
        if door is None:
            if len(self._doors) >= _TOPICS_MAX:
                self._doors = {
                    key: each for key, each in self._doors.items() if each.waiting or each.is_asking
                }
            door = self._doors[topic_id] = _Door(topic_id)
        return door

    # --- asking --------------------------------------------------------------------------------

    def _ask(self, door: _Door) -> None:
        if not door.is_asking:
            door.is_asking = True
            task = self._loop.create_task(self._ask_until_settled(door))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask_until_settled(self, door: _Door) -> None:
        try:
            while True:
                await self._ask_once(door)
                self._judge_waiting(door)
                # Also of answers that come, but too late to be believed.
                self._give_up_late(door)
                if not door.waiting:
                    return
                await asyncio.sleep(_PAUSE_S)
        except Exception:
            logger.exception("To ask who may write to topic %s failed.", door.topic_id)
            self._refuse_waiting(door, InternalError())
        finally:
            door.is_asking = False

    async def _ask_once(self, door: _Door) -> None:
        asked_s = self._clock.monotonic()
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = await self._ask_coordinator(door.topic_id)
        except (PenstockError, TimeoutError) as error:
            logger.info("Who may write to topic %s is not known: %s", door.topic_id, error)
        else:
            door.view.learn(answer.claim, answer.client_name, answer.valid_ms, asked_s)

    def _judge_waiting(self, door: _Door) -> None:
        """As far as it is known what becomes of them."""
        for claim in list(door.waiting):
            while claim in door.waiting:
                first = door.waiting[claim][0]
                verdict = door.view.judge(claim, first.came_s, self._clock.monotonic())
                if verdict is Verdict.UNKNOWN:
                    break
                try:
                    if verdict is Verdict.REFUSED:
                        raise door.view.refusal(first.partition.name.topic, claim)
                    if not first.partition.is_open:
                        raise NotLeader(f"{first.partition.name} is no longer led here.")
                    self._append(first)
                except PenstockError as error:
                    first.append.finished(error)
                self._take(door, claim)
        self._driver.end_turn()

    @staticmethod
    def _append(waiting: _Waiting) -> None:
        waiting.partition.append_known(
            waiting.batch,
            waiting.append,
            waiting.acks,
            is_claimed=True,
            opened_by=waiting.opened_by,
        )

    def _give_up_late(self, door: _Door) -> None:
        late_s = self._clock.monotonic() - CLAIM_WAIT_MS_MAX / 1000
        for claim in list(door.waiting):
            while claim in door.waiting and door.waiting[claim][0].came_s <= late_s:
                late = self._take(door, claim)
                topic = late.partition.name.topic
                late.append.finished(Busy(f"Who may write to {topic!r} is not known: try again."))

    def _refuse_waiting(self, door: _Door, error: PenstockError) -> None:
        for claim in list(door.waiting):
            while claim in door.waiting:
                self._take(door, claim).append.finished(error)

    def _take(self, door: _Door, claim: int) -> _Waiting:
        """The first of those that wait."""
        waiting = door.waiting[claim]
        taken = waiting.popleft()
        if not waiting:
            del door.waiting[claim]
        self._waiting_bytes -= len(taken.batch)
        return taken
