"""One replica among others, where the test is the others, the disk and the time."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model.errors import PenstockError, StorageError
from penstock.model.ids import PartitionId, TopicId
from penstock.net.clock import Clock
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import (
    AppendAnswer,
    AppendRequest,
    Message,
    VoteAnswer,
)
from penstock.raft.state import Timing
from penstock.records import build_batch
from penstock.records.header import BatchHeader, read_header, stamp
from penstock.replication.disk.driver import Driver
from penstock.replication.parcels.parcel import Claim
from penstock.replication.replica.catch_up import CatchUpQuota
from penstock.replication.replica.participant import Participant
from penstock.replication.replica.replica import Replica
from penstock.replication.replica.transport import Surroundings
from penstock.storage.log.log import Log, LogConfig
from tests.kit.broker.running import ManualClock
from tests.kit.simulated_disk import SimulatedDisk
from tests.unit.replication.replica.test_replica import ManualFlusher

ME, OTHER, THIRD = (Node(broker, 1) for broker in (1, 2, 3))
PARTITION = PartitionId(TopicId("b" * 32), 0)
CONFIG = LogConfig(segment_bytes=1 << 20, segment_ms=1 << 40, index_interval_bytes=4096)


class One:
    """One of three replicas; the test is the others, the disk and the time."""

    def __init__(
        self,
        disk: SimulatedDisk | None = None,
        voters: Sequence[Node] = (ME, OTHER, THIRD),
        *,
        first_term: int = 0,
        may_lack: bool = False,
        campaigns_at_once: bool = False,
        catch_up: CatchUpQuota | None = None,
    ) -> None:
        self.disk = disk or SimulatedDisk()
        self.flusher = ManualFlusher()
        self.driver = Driver()
        self.clock: ManualClock = ManualClock(10_000)
        self.sent: list[tuple[Node, Message, bytes]] = []
        self.claims: list[Claim | None] = []
        self.heard: list[object] = []
        self.alive_ms: dict[Node, int] = {}
        self.crowded: set[Node] = set()
        clock: Clock = self.clock
        around = Surroundings(
            me=ME,
            driver=self.driver,
            flusher=self.flusher,
            clock=clock,
            peers=self,
            timing=Timing(election_ms=100, retry_ms=30),
            draw_delay_ms=lambda: 50,
            catch_up=catch_up or CatchUpQuota(),
        )
        self.log = Log.open(self.disk.root, CONFIG)
        self.replica = Replica(
            "orders-0",
            PARTITION,
            self.log,
            self.disk.root,
            initial=Membership(frozenset(voters)),
            first_term=first_term,
            durability="fsync",
            around=around,
            may_lack=may_lack,
            campaigns_at_once=campaigns_at_once,
        )
        self.replica.listener = self
        self.participant = Participant(self.replica)
        self.replica.start()

    # --- replication.transport.Peers and replication.replica.Listener ----------------------------

    def send(self, node: Node, partition: PartitionId, message: Message, payload: bytes) -> None:
        assert partition == PARTITION
        self.sent.append((node, message, payload))

    def note(self, partition: PartitionId, claim: Claim | None) -> None:
        self.claims.append(claim)

    def schedule(self, partition: PartitionId, deadline_ms: int) -> None:
        """The test is the time."""

    def heard_ms(self, node: Node) -> int:
        return self.alive_ms.get(node, -1)

    def has_room(self, node: Node) -> bool:
        return node not in self.crowded

    def on_written(self, error: StorageError | None) -> None:
        self.heard.append(("written", error))

    def on_replicated(self, headers: Sequence[BatchHeader]) -> None:
        self.heard += [("replicated", header.base_offset) for header in headers]

    def on_truncated(self, offset: int) -> None:
        self.heard.append(("truncated", offset))

    def on_high_watermark(self) -> None:
        self.heard.append(("high watermark", self.replica.high_watermark))

    def on_leadership(self, is_leader: bool) -> None:
        self.heard.append(("leads", is_leader))

    # --- what the test does ----------------------------------------------------------------------

    def receive(self, message: Message, payload: bytes = b"", sender: Node = OTHER) -> None:
        buffer = bytearray(payload)
        self.participant.receive(sender, message, memoryview(buffer))
        self.driver.end_turn()
        buffer[:] = bytes(len(buffer))

    def append(
        self, term: int, place: tuple[int, int], *batches: bytearray, commit: int = 0
    ) -> None:
        previous_term, previous_offset = place
        request = AppendRequest(
            term=term,
            previous_term=previous_term,
            previous_offset=previous_offset,
            commit_offset=commit,
        )
        self.receive(request, b"".join(batches))

    def said(self) -> list[Message]:
        """What was sent since it was last asked."""
        sent, self.sent = self.sent, []
        return [message for _, message, _ in sent]

    def lead(self) -> None:
        """Elected by the second, in term 1."""
        self.clock.time_ms += 1_000
        self.participant.on_time(self.clock.time_ms)
        self.driver.end_turn()
        self.receive(VoteAnswer(term=1, is_trial=True, is_granted=True))
        self.flusher.run_all()
        self.receive(VoteAnswer(term=1, is_trial=False, is_granted=True))
        self.flusher.run_all()
        self.answer(0)
        self.answer(1)
        assert self.replica.is_leader
        self.sent.clear()
        self.heard.clear()

    def answer(self, end_offset: int, sender: Node = OTHER, term: int = 1) -> None:
        self.receive(
            AppendAnswer(term=term, is_matching=True, end_offset=end_offset), sender=sender
        )

    def propose(self, acks: int = -1) -> list[PenstockError | None]:
        told: list[PenstockError | None] = []
        batch = memoryview(made(0, 2))
        self.replica.propose(read_header(batch), batch, told.append, acks)
        return told


def made(base_offset: int, records: int, term: int = 1, value: bytes = b"v") -> bytearray:
    batch = build_batch([(None, value)] * records)
    stamp(memoryview(batch), base_offset, term)
    return batch
