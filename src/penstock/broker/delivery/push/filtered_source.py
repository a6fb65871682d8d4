"""What is pushed through a filter: batches of a partition without the messages that do not pass.

Beside `broker.delivery.push.sources`, which pushes all of them. How they are looked at is
`broker.delivery.filtered`'s, and that is work in turns, so nothing is looked at twice: after a park
the client opens another stream, where it has come to. The invariants (R-DEL-12): a load begins
where the one before it ended; one without messages says that there were none up to there, and takes
credit as one with a message does, so a client is not told faster than it takes note; and it is told
that soon after they were passed over, so that its group moves on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from penstock.broker.delivery.filtered import FilteredPart, filtered_read
from penstock.broker.delivery.push.sources import Done, Load
from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partition import Partition
from penstock.broker.turns.fair_turns import FairTurns, Work
from penstock.coordination.filter.filters import CompiledFilter
from penstock.model.errors import Busy, PenstockError
from penstock.model.ids import TopicPartition
from penstock.net.connection import Connection
from penstock.records.header import Buffer

# At the log's end: so long may messages have been passed over before the client is told.
_SKIPPED_WAIT_S: Final = 0.5


class FilteredSource:
    """For whoever has a partition for itself, and wants some of it."""

    __slots__ = (
        "_compiled",
        "_connection",
        "_done",
        "_is_taken_back",
        "_leaders",
        "_looked_offset",
        "_name",
        "_offset",
        "_timer",
        "_turns",
        "_waits_at",
        "_work",
    )

    def __init__(
        self,
        leaders: Leaders,
        turns: FairTurns,
        connection: Connection,
        name: TopicPartition,
        offset: int,
        compiled: CompiledFilter,
    ) -> None:
        self._leaders = leaders
        self._turns = turns
        self._connection = connection
        self._name = name
        # Where the next load begins, and up to where nothing passed since.
        self._offset = self._looked_offset = offset
        self._timer: asyncio.TimerHandle | None = None
        self._compiled = compiled
        self._done: Done | None = None
        self._work: Work[FilteredPart] | None = None
        self._waits_at: Partition | None = None
        self._is_taken_back = False

    def next(self, messages_max: int, bytes_max: int, done: Done) -> None:
        assert self._done is None, f"{self._name} is asked twice"
        try:
            # Led elsewhere, or deleted, it is not found.
            partition = self._leaders.find(*self._name)
        except PenstockError as error:
            done(error)
            return
        self._done = done
        offset = self._looked_offset
        reading = filtered_read(partition, offset, bytes_max, self._compiled, messages_max)
        self._work = self._turns.begin(
            self._connection, reading, lambda part: self._looked(partition, part), self._tell
        )

    def cancel(self) -> None:
        self._done = None
        if self._work is not None:
            self._work.cancel()
            self._work = None
        self._stop_waiting()

    def drop(self, load: Load) -> None:
        self._offset = self._looked_offset = load.offset

    def again(self, load: Load) -> Load | None:
        """What was sent is on its way as long as the connection lives: it is not looked for again.
        After a park the client alone knows what it has."""
        del load
        if self._is_taken_back:
            raise Busy(f"What passes of {self._name} was parked: open the stream again.")
        return None

    def take_back(self, unanswered: Sequence[Load]) -> bool:
        self._is_taken_back = bool(unanswered)
        return False

    def close(self, unanswered: Sequence[Load]) -> None:
        del unanswered
        self.cancel()

    def _looked(self, partition: Partition, part: FilteredPart) -> None:
        self._work = None
        self._looked_offset = part.next_offset
        is_behind = part.next_offset < partition.replica.high_watermark
        if part.payload or (is_behind and part.next_offset > self._offset):
            self._tell_load(partition, part.payload, part.message_count)
        elif partition.is_open:
            self._waits_at = partition
            partition.wait_for_more(self, self._wake)
            if self._looked_offset > self._offset and self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(_SKIPPED_WAIT_S, self._time_up)
        else:
            self._tell(None)  # asked again, it is not found

    def _tell_load(self, partition: Partition, payload: list[Buffer], messages: int) -> None:
        load = Load(
            messages=max(messages, 1),
            payload=b"".join(payload),
            offset=self._offset,
            next_offset=self._looked_offset,
            high_watermark=partition.replica.high_watermark,
            has_gaps=True,
        )
        self._stop_waiting()
        self._offset = self._looked_offset
        self._tell(load)

    def _time_up(self) -> None:
        self._timer = None
        partition = self._waits_at
        if partition is not None:
            self._tell_load(partition, [], 0)
        # Else it is looking, and waits again if nothing passes.

    def _stop_waiting(self) -> None:
        if self._waits_at is not None:
            self._waits_at.stop_waiting(self)
            self._waits_at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._waits_at = None
        self._tell(None)

    def _tell(self, outcome: Load | PenstockError | None) -> None:
        done = self._done
        assert done is not None, f"{self._name} tells whom it does not know"
        self._done = self._work = None
        done(outcome)
