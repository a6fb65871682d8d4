"""A small broker on the real network code, whose answers a test can script.

It keeps batches in memory and checks sequences as the real one does (by the same class). The
script says what happens to the next calls of a kind: answered with an error, done but not
answered, cut off, or held until the test lets them go.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from penstock.coordination.producers.state import ProducerState
from penstock.model.errors import (
    FencedMemberEpoch,
    InvalidRequest,
    OffsetOutOfRange,
    PenstockError,
    StagedBatchesMissing,
    StaleMemberEpoch,
    UnknownMember,
    UnknownTopic,
)
from penstock.net.address import TcpAddress
from penstock.net.channel import Channel
from penstock.net.connection import Connection
from penstock.net.server import Server
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import CALLS, error_envelope, parse
from penstock.records.header import BatchHeader, check_produced, stamp
from tests.kit.client.fake_delivery import FakeDelivery

LOSE_ANSWER = "done, but the connection breaks before the answer"
BREAK = "the connection breaks before it is done"
HOLD = "held until the test releases it"
SWALLOW = "neither done nor answered"
DO = "done as usual"

Action = PenstockError | str
Envelope = Any  # one protobuf message or another


class FakePartition:
    def __init__(self) -> None:
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.start = 0
        self.end = 0
        self.compacted = False
        self.is_offline = False
        # What a filter lets through: batches by their first offsets; and how many it looks at.
        self.passing: set[int] = set()
        self.looked_at_max = 1_000_000
        self.producers = ProducerState()

    def append(self, payload: memoryview) -> tuple[int, bool]:
        header, view = check_produced(payload), payload
        if header.producer_id >= 0:
            repeated = self.producers.check(header)
            if repeated is not None:
                return repeated, True
            self.producers.record(header, self.end, 0)
        base = self.end
        stamp(view, base, 0)
        self.batches.append((header._replace(base_offset=base), bytes(view)))
        self.end += header.record_count
        return base, False

    def read(self, offset: int, max_bytes: int) -> bytes:
        if not self.start <= offset <= self.end:
            raise OffsetOutOfRange(f"{offset} is not within {self.start} and {self.end}.")
        found = b""
        for header, batch in self.batches:
            if header.next_offset > offset and (not found or len(found + batch) <= max_bytes):
                found += batch
        return found

    def read_filtered(self, offset: int) -> tuple[bytes, int]:
        """Those that pass, of the next few; and where they end."""
        looked_at = [each for each in self.batches if each[0].next_offset > offset]
        looked_at = looked_at[: self.looked_at_max]
        found = [batch for header, batch in looked_at if header.base_offset in self.passing]
        return b"".join(found), looked_at[-1][0].next_offset if looked_at else offset


class FakeState(FakeDelivery):
    """What the broker knows, and what it answers when nothing is scripted."""

    def __init__(self, broker_id: int) -> None:
        super().__init__()
        self.broker_id = broker_id
        self.topics: dict[str, list[FakePartition]] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.partition_count = 1
        self.creates_topics = True
        self.filters = True
        """Else it is an older broker, which knows of none."""
        self.offsets: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        self.next_producer_id = 100
        self.removals: dict[tuple[str, int], list[pb.ListRemovalsResponse.Removal]] = {}
        self.deleted_topics: list[pb.ListDeletedTopicsResponse.Topic] = []
        # Who joined which group, and what each is told to read: all there is, unless said here.
        self.subscriptions: dict[str, list[str]] = {}
        self.members: dict[str, dict[str, int]] = defaultdict(dict)
        self.assigned: dict[str, dict[str, list[int]]] = {}
        self.heartbeat_interval_ms = 5
        self.session_timeout_ms = 45_000
        self.lost_ms = 3_000
        # Whether heartbeats other than full ones are answered that nothing has changed.
        self.says_nothing_new = False
        # What every attempt of a write and epoch has staged: where to, and the bytes.
        self.staged: dict[tuple[str, int, str], list[tuple[str, int, bytes]]] = {}
        self.committed: dict[str, int] = {}
        self.copy_polls = 0
        """So many commits are answered before what they say is readable."""
        # Other brokers of the cluster, and who leads what; this one by default.
        self.peers: dict[int, str] = {}
        self.leaders: dict[tuple[str, int], int] = {}
        # Who looks after groups and staged writes; this one by default.
        self.coordinators: dict[int, int] = {}
        self._address = TcpAddress("127.0.0.1", 0)

    @property
    def address(self) -> str:
        return str(self._address)

    def create(self, topic: str, partitions: int) -> None:
        self.topics[topic] = [FakePartition() for _ in range(partitions)]

    def do(self, number: int, request: Envelope, data: memoryview) -> tuple[Envelope, bytes]:
        if number == pb.CALL_CLOSE_PUSH:
            return pb.ClosePushResponse(), b""
        answer = getattr(self, "_" + CALLS[number].name.lower())(request, data)
        return answer if isinstance(answer, tuple) else (answer, b"")

    def _hello(self, request: pb.HelloRequest, data: memoryview) -> Envelope:
        return pb.HelloResponse(cluster_id="fake", broker_id=self.broker_id)

    def _metadata(self, request: pb.MetadataRequest, data: memoryview) -> Envelope:
        answer = pb.MetadataResponse(cluster_id="fake")
        for number, address in {self.broker_id: self.address, **self.peers}.items():
            answer.brokers.add(id=number, address=address)
        for name in list(self.topics) if request.all_topics else request.topics:
            if name not in self.topics and request.create_missing and self.creates_topics:
                self.create(name, self.partition_count)
            topic = answer.topics.add(name=name)
            if name not in self.topics:
                error = UnknownTopic(f"There is no topic {name}.")
                topic.error.ParseFromString(error_envelope(error))
                continue
            topic.id = f"id of {name}"
            for number in range(len(self.topics[name])):
                leader = self.leaders.get((name, number), self.broker_id)
                topic.partitions.add(partition=number, leader=leader)
        return answer

    def _produce(self, request: pb.ProduceRequest, data: memoryview) -> Envelope:
        base, duplicate = _partition_of(self, request).append(data)
        return pb.ProduceResponse(base_offset=base, append_time_ms=-1, duplicate=duplicate)

    def _fetch(self, request: pb.FetchRequest, data: memoryview) -> tuple[Envelope, bytes]:
        partition = _partition_of(self, request)
        answer = pb.FetchResponse(
            high_watermark=partition.end,
            log_start_offset=partition.start,
            compacted=partition.compacted,
        )
        if request.HasField("filter") and self.filters:
            payload, answer.next_offset = partition.read_filtered(request.offset)
            return answer, payload
        return answer, partition.read(request.offset, request.max_bytes)

    def _findoffset(self, request: pb.FindOffsetRequest, data: memoryview) -> Envelope:
        partition = _partition_of(self, request)
        if request.WhichOneof("at") == "earliest":
            return pb.FindOffsetResponse(offset=partition.start, timestamp_ms=-1)
        if request.WhichOneof("at") == "timestamp_ms":
            for header, _ in partition.batches:
                if header.max_timestamp_ms >= request.timestamp_ms:
                    return pb.FindOffsetResponse(offset=header.base_offset)
        return pb.FindOffsetResponse(offset=partition.end, timestamp_ms=-1)

    def _initproducer(self, request: pb.InitProducerRequest, data: memoryview) -> Envelope:
        self.next_producer_id += 1
        return pb.InitProducerResponse(producer_id=self.next_producer_id, producer_epoch=0)

    def _createtopic(self, request: pb.CreateTopicRequest, data: memoryview) -> Envelope:
        self.create(request.name, request.partitions or self.partition_count)
        self.configs[request.name] = dict(request.config)
        return pb.CreateTopicResponse(id="id", partitions=len(self.topics[request.name]))

    def _deletetopic(self, request: pb.DeleteTopicRequest, data: memoryview) -> Envelope:
        if self.topics.pop(request.name, None) is None:
            raise UnknownTopic(f"There is no topic {request.name}.")
        return pb.DeleteTopicResponse()

    def _describetopic(self, request: pb.DescribeTopicRequest, data: memoryview) -> Envelope:
        if request.name not in self.topics:
            raise UnknownTopic(f"There is no topic {request.name}.")
        config = self.configs.get(request.name, {})
        answer = pb.DescribeTopicResponse(
            name=request.name, id="id", config=config, broker=self.broker_id
        )
        for number, partition in enumerate(self.topics[request.name]):
            leader = self.leaders.get((request.name, number), self.broker_id)
            answer.partitions.add(
                partition=number,
                leader=leader,
                replicas=[self.broker_id, *self.peers],
                in_sync=[leader],
                log_start_offset=partition.start,
                high_watermark=partition.end,
                segments=1,
            )
            if partition.is_offline:
                answer.partitions[-1].Clear()
                answer.partitions[-1].partition = number
                answer.partitions[-1].leader = leader
                answer.partitions[-1].error.message = "It is offline."
        return answer

    def _altertopic(self, request: pb.AlterTopicRequest, data: memoryview) -> Envelope:
        self.configs.setdefault(request.name, {}).update(request.set)
        for name in request.reset:
            self.configs[request.name].pop(name, None)
        return pb.AlterTopicResponse()

    def _addpartitions(self, request: pb.AddPartitionsRequest, data: memoryview) -> Envelope:
        partitions = self.topics[request.name]
        if request.total <= len(partitions):
            raise InvalidRequest(f"{request.name} has {len(partitions)} partitions already.")
        partitions += [FakePartition() for _ in range(request.total - len(partitions))]
        return pb.AddPartitionsResponse()

    def _groupheartbeat(self, request: pb.GroupHeartbeatRequest, data: memoryview) -> Envelope:
        members = self.members[request.group]
        if request.member_epoch < 0:
            members.pop(request.member_id, None)
            return pb.GroupHeartbeatResponse(member_epoch=request.member_epoch)
        if request.member_epoch == 0:
            assert not request.owned, "who joins owns nothing"
            members[request.member_id] = max(members.values(), default=0) + 1
            self.subscriptions[request.member_id] = list(request.topics)
        if request.member_id not in members:
            raise UnknownMember
        if request.member_epoch not in (0, members[request.member_id]):
            raise FencedMemberEpoch
        assigned = self.assigned.get(request.member_id)
        if assigned is None:
            topics = self.subscriptions[request.member_id]
            assigned = {name: list(range(len(self.topics.get(name, ())))) for name in topics}
        answer = pb.GroupHeartbeatResponse(
            member_epoch=members[request.member_id],
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            session_timeout_ms=self.session_timeout_ms,
            lost_ms=self.lost_ms,
            has_assignment=True,
        )
        if self.says_nothing_new and not request.is_full:
            answer.has_assignment = False
            return answer
        for topic, partitions in assigned.items():
            answer.assignment.add(topic=topic, partitions=partitions)
        return answer

    def _commitoffsets(self, request: pb.CommitOffsetsRequest, data: memoryview) -> Envelope:
        members = self.members[request.group]
        if request.member_id and request.member_id not in members:
            raise UnknownMember
        if request.member_id and request.member_epoch != members[request.member_id]:
            raise StaleMemberEpoch
        for entry in request.offsets:
            self.offsets[request.group][entry.topic, entry.partition] = entry.offset
        return pb.CommitOffsetsResponse()

    def _fetchoffsets(self, request: pb.FetchOffsetsRequest, data: memoryview) -> Envelope:
        answer = pb.FetchOffsetsResponse()
        for (topic, partition), offset in self.offsets[request.group].items():
            if not request.topics or topic in request.topics:
                answer.offsets.add(topic=topic, partition=partition, offset=offset)
        return answer

    def _listgroups(self, request: pb.ListGroupsRequest, data: memoryview) -> Envelope:
        return pb.ListGroupsResponse(groups=list(self.offsets))

    def _stage(self, request: pb.StageRequest, data: memoryview) -> Envelope:
        _partition_of(self, request)
        if request.epoch <= self.committed.get(request.write, -1):
            return pb.StageResponse(already=True)
        attempt = (request.write, request.epoch, request.attempt)
        batches = self.staged.setdefault(attempt, [])
        if request.sequence > len(batches):
            raise StagedBatchesMissing
        if request.sequence == len(batches):
            batches.append((request.topic, request.partition, bytes(data)))
        return pb.StageResponse()

    def _commitstaged(self, request: pb.CommitStagedRequest, data: memoryview) -> Envelope:
        already = request.epoch <= self.committed.get(request.write, -1)
        for named in [] if already else request.attempts:
            found = self.staged.get((request.write, request.epoch, named.attempt), [])
            if len(found) != named.batches:
                raise StagedBatchesMissing
        self.committed[request.write] = max(request.epoch, self.committed.get(request.write, -1))
        self.copy_polls -= 1
        return pb.CommitStagedResponse(already=already, records=5, readable=self.copy_polls < 0)

    def _abortstaged(self, request: pb.AbortStagedRequest, data: memoryview) -> Envelope:
        for attempt in request.attempts:
            self.staged.pop((request.write, request.epoch, attempt), None)
        return pb.AbortStagedResponse()

    def _committedepoch(self, request: pb.CommittedEpochRequest, data: memoryview) -> Envelope:
        return pb.CommittedEpochResponse(epoch=self.committed.get(request.write))

    def _listremovals(self, request: pb.ListRemovalsRequest, data: memoryview) -> Envelope:
        _partition_of(self, request)
        found = self.removals.get((request.topic, request.partition), [])
        return pb.ListRemovalsResponse(removals=found)

    def _listdeletedtopics(
        self, request: pb.ListDeletedTopicsRequest, data: memoryview
    ) -> Envelope:
        found = [one for one in self.deleted_topics if request.name in ("", one.name)]
        return pb.ListDeletedTopicsResponse(topics=found)


def _partition_of(state: FakeState, request: Envelope) -> FakePartition:
    partitions = state.topics.get(request.topic, [])
    if request.partition >= len(partitions):
        raise UnknownTopic(f"There is no {request.topic}-{request.partition}.")
    found: FakePartition = partitions[request.partition]
    return found


class FakeBroker(FakeState):
    """Use in an `async with`."""

    def __init__(self, *, broker_id: int = 0) -> None:
        super().__init__(broker_id)
        self.holds_polls = True
        self.script: dict[int, deque[Action]] = defaultdict(deque)
        self.calls: list[tuple[int, Envelope]] = []
        self.held: list[Callable[[], None]] = []
        self.channels: list[Channel] = []
        self._server: Server | None = None
        self._polls: list[Callable[[], None]] = []

    def _claimtopic(self, request: pb.ClaimTopicRequest, data: memoryview) -> Envelope:
        if request.topic not in self.topics:
            self.create(request.topic, self.partition_count)
        return super()._claimtopic(request, data)

    async def __aenter__(self) -> FakeBroker:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = Server([self._address], self._session)
        await self._server.start()
        address = self._server.addresses[0]
        assert isinstance(address, TcpAddress)
        self._address = address

    async def stop(self) -> None:
        """Go down without a word; the topics stay for the next `start`."""
        for channel in self.channels:
            channel.connection.abort()
        self.channels.clear()
        self._polls.clear()
        if self._server is not None:
            await self._server.close()
            self._server = None

    def count(self, call: int) -> int:
        return sum(number == call for number, _ in self.calls)

    def notify(self) -> None:
        """Something was appended: answer the long polls, or ask them to wait again."""
        polls, self._polls = self._polls, []
        for poll in polls:
            poll()

    def release(self) -> None:
        held, self.held = self.held, []
        for go_on in held:
            go_on()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop turn until something has happened."""
        async with asyncio.timeout(5):
            while not condition():
                await asyncio.sleep(0)

    # --- serving -------------------------------------------------------------------------------

    def _findcoordinator(self, request: pb.FindCoordinatorRequest, data: memoryview) -> Envelope:
        broker = self.coordinators.get(request.kind, self.broker_id)
        address = self.peers.get(broker, self.address)
        return pb.FindCoordinatorResponse(broker=broker, address=address)

    def _session(self, connection: Connection) -> Channel:
        channel = Channel(connection, self._serve)
        self.channels.append(channel)
        return channel

    def _serve(
        self, channel: Channel, number: int, message_id: int, envelope: memoryview, data: memoryview
    ) -> None:
        request = parse(CALLS[number].request, envelope)
        self.calls.append((number, request))
        script = self.script[number]
        action = script.popleft() if script else DO
        payload = memoryview(bytearray(data))
        match action:
            case PenstockError():
                channel.answer_error(message_id, action)
            case str() if action == BREAK:
                channel.connection.abort()
            case str() if action == LOSE_ANSWER:
                self.do(number, request, payload)
                channel.connection.abort()
            case str() if action == SWALLOW:
                channel.leave_unanswered()
            case str() if action == HOLD:
                self.held.append(
                    lambda: self._answer(channel, number, message_id, request, payload)
                )
            case _:
                self._answer(channel, number, message_id, request, payload)

    def _answer(
        self, channel: Channel, number: int, message_id: int, request: Envelope, data: memoryview
    ) -> None:
        try:
            response, payload = self.do(number, request, data)
        except PenstockError as error:
            channel.answer_error(message_id, error)
            return
        if number == pb.CALL_PRODUCE:
            self.notify()
        if number == pb.CALL_PRODUCE and request.acks == 0:
            channel.leave_unanswered()
        elif (
            number == pb.CALL_FETCH
            and not payload
            and response.next_offset in (0, request.offset)
            and self.holds_polls
        ):
            # A long poll: answered by the next batch, or never, as far as a test waits.
            self._polls.append(
                lambda: self._answer(channel, number, message_id, request, memoryview(b""))
            )
        else:
            channel.answer(message_id, number, response.SerializeToString(), payload)
