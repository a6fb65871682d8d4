"""A batch of the broker's own making into any partition of the cluster, whoever leads it.

Not when, and not again: who forwards tries again with what may be repeated. The invariant: `done`
is called once, without an error only when the batch is committed.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.carrier.append import Carried
from penstock.broker.carrier.parts import Parts
from penstock.broker.topics.openings import Openings
from penstock.model.errors import NotLeader, PenstockError
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import PRODUCE
from penstock.replication.replica.replica import ACKS_ALL

Done = Callable[[PenstockError | None], None]


class Forwarding:
    """One per broker. All calls come from the event loop."""

    def __init__(self, parts: Parts, openings: Openings) -> None:
        self._parts = parts
        self._openings = openings

    def append(self, name: TopicPartition, batch: bytes | bytearray, done: Done) -> None:
        """Have the batch appended. What is refused at once is raised, and `done` not called."""
        try:
            partition = self._parts.leaders.find(*name)
        except NotLeader:
            self._send(name, batch, done)
            return
        try:
            # A bytearray: where it stands is written into it.
            kept = memoryview(bytearray(batch))
            self._openings.append(self, partition, kept, Carried(done), ACKS_ALL)
        finally:
            self._parts.driver.end_turn()

    def _send(self, name: TopicPartition, batch: bytes | bytearray, done: Done) -> None:
        channel = self._parts.way_to(name)
        request = pb.ProduceRequest(topic=name.topic, partition=name.partition, acks=ACKS_ALL)

        def answered(error: PenstockError | None, *_: memoryview) -> None:
            done(error)

        channel.start_call(PRODUCE.number, request.SerializeToString(), (batch,), answered)
