"""Every API in every version that we advertise is answered, and what fails is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.broker.call import Call
from penstock.broker.clients.clients import Clients
from penstock.broker.clients.session import Session
from penstock.broker.context import Context
from penstock.broker.data_folder import Meta
from penstock.broker.entry.columns import NativeRow
from penstock.broker.entry.dispatch import Dispatcher
from penstock.broker.entry.table import KAFKA, NATIVE
from penstock.broker.ground import Ground
from penstock.model.errors import Busy, InternalError, InvalidRequest, UnknownCall
from penstock.net.channel import Channel
from penstock.net.clock import SystemClock
from penstock.net.connection import Connection
from penstock.net.receive_pool import ReceivePool
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import CallType
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.apis import APIS, Api
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages import (
    alter_configs,
    alter_share_group_offsets,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_share_group_offsets,
    describe_topic_partitions,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
)
from penstock.protocol.kafka.messages.api_versions import ApiVersionsRequest
from penstock.protocol.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.raft.membership import Node
from penstock.registry.metaserver.server import MetaServer
from penstock.replication.parcels.parcel import Parcel
from penstock.replication.parcels.wire import encode
from tests.kit.broker.kafka_client import KafkaClient, connect, kafka_running
from tests.kit.broker.kafka_talk import create, fill, topic_id
from tests.kit.broker.running import CONFIG, batch
from tests.kit.net.sockets import serve_nothing, socket_pair, turns, until
from tests.kit.records.kafka_messages import Samples

BY_IDS_SINCE = {apis.PRODUCE: 13, apis.FETCH: 13, apis.OFFSET_COMMIT: 10, apis.OFFSET_FETCH: 10}


def sensible(api: Api, version: int, orders: bytes) -> Any:
    """A request that means something, about a topic that is there."""
    named: dict[str, Any] = {"topic" if api is apis.FETCH else "name": "orders"}
    if version >= BY_IDS_SINCE.get(api, 99):
        named = {"topic_id": orders}
    match api:
        case apis.PRODUCE:
            data = [PartitionProduceData(0, memoryview(batch([b"a"])))]
            return ProduceRequest(None, 1, 100, [TopicProduceData(partition_data=data, **named)])
        case apis.FETCH:
            partitions = [FetchPartition(0, partition_max_bytes=1000)]
            return FetchRequest(min_bytes=1, topics=[FetchTopic(partitions=partitions, **named)])
        case apis.OFFSET_COMMIT:
            offsets = [offset_commit.OffsetCommitRequestPartition(0, 1)]
            topics = [offset_commit.OffsetCommitRequestTopic(partitions=offsets, **named)]
            return offset_commit.OffsetCommitRequest("g", topics=topics)
        case apis.JOIN_GROUP:
            return join_group.JoinGroupRequest(
                f"classic-{version}",  # a second member would wait for the first one to join again
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[join_group.JoinGroupRequestProtocol("range", b"")],
            )
    return SENSIBLE.get(api, api.request)()


SENSIBLE: dict[Api, Callable[[], Any]] = {
    apis.LIST_OFFSETS: lambda: list_offsets.ListOffsetsRequest(
        topics=[
            list_offsets.ListOffsetsTopic(
                "orders", [list_offsets.ListOffsetsPartition(0, timestamp=-1)]
            )
        ]
    ),
    apis.METADATA: lambda: metadata.MetadataRequest([metadata.MetadataRequestTopic(name="orders")]),
    apis.OFFSET_FETCH: lambda: offset_fetch.OffsetFetchRequest("g"),
    apis.FIND_COORDINATOR: lambda: find_coordinator.FindCoordinatorRequest(
        "g", coordinator_keys=["g"]
    ),
    apis.HEARTBEAT: lambda: heartbeat.HeartbeatRequest("g", 1, "nobody"),
    apis.LEAVE_GROUP: lambda: leave_group.LeaveGroupRequest("g", "nobody"),
    apis.SYNC_GROUP: lambda: sync_group.SyncGroupRequest("g", 1, "nobody"),
    apis.DESCRIBE_GROUPS: lambda: describe_groups.DescribeGroupsRequest(["g"]),
    apis.CREATE_TOPICS: lambda: create_topics.CreateTopicsRequest(
        [create_topics.CreatableTopic("more", 1, 1)]
    ),
    apis.DELETE_TOPICS: lambda: delete_topics.DeleteTopicsRequest(
        [delete_topics.DeleteTopicState("more")], ["more"]
    ),
    apis.DELETE_RECORDS: lambda: delete_records.DeleteRecordsRequest(
        [delete_records.DeleteRecordsTopic("orders", [delete_records.DeleteRecordsPartition(0, 0)])]
    ),
    apis.OFFSET_FOR_LEADER_EPOCH: lambda: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(
                "orders", [offset_for_leader_epoch.OffsetForLeaderPartition(0)]
            )
        ]
    ),
    apis.DESCRIBE_CONFIGS: lambda: describe_configs.DescribeConfigsRequest(
        [describe_configs.DescribeConfigsResource(2, "orders", None)], True, True
    ),
    apis.ALTER_CONFIGS: lambda: alter_configs.AlterConfigsRequest(
        [alter_configs.AlterConfigsResource(2, "orders")]
    ),
    apis.INCREMENTAL_ALTER_CONFIGS: (
        lambda: incremental_alter_configs.IncrementalAlterConfigsRequest(
            [incremental_alter_configs.AlterConfigsResource(2, "orders")]
        )
    ),
    apis.DESCRIBE_LOG_DIRS: lambda: describe_log_dirs.DescribeLogDirsRequest(None),
    apis.CREATE_PARTITIONS: lambda: create_partitions.CreatePartitionsRequest(
        [create_partitions.CreatePartitionsTopic("orders", 2, None)], validate_only=True
    ),
    apis.DELETE_GROUPS: lambda: delete_groups.DeleteGroupsRequest(["nothing"]),
    apis.OFFSET_DELETE: lambda: offset_delete.OffsetDeleteRequest("g"),
    apis.DESCRIBE_PRODUCERS: lambda: describe_producers.DescribeProducersRequest(
        [describe_producers.TopicRequest("orders", [0])]
    ),
    apis.CONSUMER_GROUP_HEARTBEAT: lambda: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        "next", "member", 0, rebalance_timeout_ms=10_000, subscribed_topic_names=["orders"]
    ),
    apis.CONSUMER_GROUP_DESCRIBE: lambda: consumer_group_describe.ConsumerGroupDescribeRequest(
        ["next"]
    ),
    apis.SHARE_GROUP_HEARTBEAT: lambda: share_group_heartbeat.ShareGroupHeartbeatRequest(
        "shared", "member", 0, subscribed_topic_names=["orders"]
    ),
    apis.SHARE_GROUP_DESCRIBE: lambda: share_group_describe.ShareGroupDescribeRequest(["shared"]),
    apis.DESCRIBE_SHARE_GROUP_OFFSETS: (
        lambda: describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
            [describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup("shared", None)]
        )
    ),
    apis.ALTER_SHARE_GROUP_OFFSETS: lambda: alter_share_group_offsets.AlterShareGroupOffsetsRequest(
        "shared",
        [
            alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
                "orders",
                [alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(0, 0)],
            )
        ],
    ),
    apis.DELETE_SHARE_GROUP_OFFSETS: (
        lambda: delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
            "shared",
            [delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic("orders")],
        )
    ),
    apis.DESCRIBE_TOPIC_PARTITIONS: (
        lambda: describe_topic_partitions.DescribeTopicPartitionsRequest(
            [describe_topic_partitions.TopicRequest("orders")]
        )
    ),
}


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
async def test_every_version_is_answered(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """R-NET-5: an empty request and a sensible one, without a traceback, on one connection."""
    async with kafka_running(group_initial_rebalance_delay_ms=0) as (_, client):
        await create(client)
        await fill(client, b"a")
        orders = await topic_id(client)
        for version in range(api.version_min, api.version_max + 1):
            for request in (api.request(), sensible(api, version, orders)):
                if isinstance(request, ProduceRequest):
                    request.acks = request.acks or 1
                async with asyncio.timeout(10):
                    assert isinstance(await client.call(api, version, request), api.response)
        assert (await client.call(apis.API_VERSIONS, 4, ApiVersionsRequest())).error_code == 0
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
async def test_whatever_a_request_says_it_is_answered_or_its_connection_ends(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """R-NET-1: values by chance in every field, the ends of every range among them."""
    async with kafka_running(group_initial_rebalance_delay_ms=0) as (broker, client):
        await create(client, "a", 3)
        for version in range(api.version_min, api.version_max + 1):
            for seed in range(3):
                request = Samples(f"{api.name} {version} {seed}").ours(api.request, version)
                _cut_waits(request)
                client = await _ask(client, api, version, request) or await connect(broker)
        assert (await client.call(apis.API_VERSIONS, 4, ApiVersionsRequest())).error_code == 0
        await client.close()
    assert not [record for record in caplog.records if record.exc_info]


def _cut_waits(request: Any) -> None:
    """What may be answered only after a wait, or not at all, would hold up the test."""
    for name in ("max_wait_ms", "rebalance_timeout_ms", "session_timeout_ms"):
        if hasattr(request, name):
            setattr(request, name, 0)
    if isinstance(request, ProduceRequest):
        request.acks = request.acks or 1


async def _ask(client: KafkaClient, api: Api, version: int, request: Any) -> KafkaClient | None:
    """The client if its connection is still there."""
    try:
        async with asyncio.timeout(10):
            await client.call(api, version, request)
    except (ConnectionError, asyncio.IncompleteReadError):
        await client.close()
        return None
    return client


def answer_by(handler: Any, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API is answered by this handler until the test ends."""
    monkeypatch.setitem(vars(KAFKA[api.key]), "handler", handler)


async def _refused(context: object, call: object) -> object:
    del context, call
    await asyncio.sleep(0)
    raise InvalidRequest("It makes no sense.")


async def _broken(context: object, call: object) -> object:
    del context, call
    await asyncio.sleep(0)
    raise ZeroDivisionError


def _refused_at_once(context: object, call: object) -> object:
    raise InvalidRequest("It makes no sense.")


def _broken_at_once(context: object, call: object) -> object:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("handler", "code"),
    [
        (_refused, ErrorCode.INVALID_REQUEST),
        (_refused_at_once, ErrorCode.INVALID_REQUEST),
        (_broken, ErrorCode.UNKNOWN_SERVER_ERROR),
        (_broken_at_once, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_handler_that_fails_is_answered_where_there_is_a_place_for_it(
    handler: Any, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_by(handler, apis.DESCRIBE_CLUSTER, monkeypatch)
    answer_by(handler, apis.LIST_OFFSETS, monkeypatch)
    async with kafka_running() as (_, client):
        response = await client.call(apis.DESCRIBE_CLUSTER, 0, apis.DESCRIBE_CLUSTER.request())
        assert response.error_code == code
        assert response.error_message
        await client.send(apis.LIST_OFFSETS, 1, list_offsets.ListOffsetsRequest())
        assert await client.is_closed()


async def test_a_place_that_a_version_does_not_have_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fetch tells errors of the whole since version 7."""
    answer_by(_refused_at_once, apis.FETCH, monkeypatch)
    async with kafka_running() as (_, client):
        response = await client.call(apis.FETCH, 7, FetchRequest())
        assert response.error_code == ErrorCode.INVALID_REQUEST
        await client.send(apis.FETCH, 6, FetchRequest())
        assert await client.is_closed()


async def test_a_stop_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(context: object, call: object) -> object:
        del context, call
        return await asyncio.Event().wait()

    answer_by(endless, apis.LIST_OFFSETS, monkeypatch)
    async with kafka_running(shutdown_timeout_ms=1) as (broker, client):
        await client.send(apis.LIST_OFFSETS, 1, list_offsets.ListOffsetsRequest())
        await asyncio.sleep(0)
        await broker.stop()
        assert await client.is_closed()


# --- our own protocol ---------------------------------------------------------------------------


def ground() -> Ground:
    """Of a broker that has only begun to start."""
    unused = cast(Any, None)
    return Ground(
        config=CONFIG,
        data=unused,
        meta=Meta(cluster_id="", broker_id=1, directory_id=7),
        place=7,
        driver=unused,
        flusher=unused,
        clock=SystemClock(),
        clients=Clients(SystemClock()),
    )


@contextlib.asynccontextmanager
async def calling(dispatcher: Dispatcher) -> AsyncIterator[Channel]:
    """A client of the dispatcher, over a connection."""
    near_socket, far_socket = socket_pair()
    pool = ReceivePool()
    near_connection = Connection(near_socket, pool=pool, keep_frames=True)
    far_connection = Connection(far_socket, pool=pool)
    near = Channel(near_connection, serve_nothing)
    session = Session(
        far_connection, dispatcher.native, on_read_end=lambda: None, frame_bytes_max=1 << 20
    )
    near_connection.start(near)
    far_connection.start(session.channel)
    yield near
    near.close()
    far_connection.close()
    await turns(10)


def handled_by(handler: Any, kind: CallType[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is answered by this handler until the test ends."""
    row = replace(NATIVE[kind.number], handler=handler)
    monkeypatch.setitem(cast(dict[int, NativeRow], NATIVE), kind.number, row)


async def test_who_comes_before_a_broker_is_ready_is_told_to_wait() -> None:
    """R-REP-5: but for what brokers say to each other, by which it becomes ready."""
    dispatcher = Dispatcher(ground())
    async with calling(dispatcher) as client:
        hello, _ = await client.call(calls.HELLO, pb.HelloRequest())
        assert (hello.broker_id, hello.directory, hello.cluster_id) == (1, 7, "")
        of_brokers: list[CallType[Any, Any]] = [calls.RAFT, calls.META_FETCH, calls.DELIVER]
        of_anybody: list[CallType[Any, Any]] = [calls.FETCH, calls.COPY]
        for kind in of_brokers + of_anybody:
            with pytest.raises(Busy, match="is starting"):
                await client.call(kind, kind.request())
        dispatcher.let_clients(cast(Context, None))
        for kind in of_brokers:
            with pytest.raises(UnknownCall, match=f"does not answer {kind.name}"):
                await client.call(kind, kind.request())


async def test_what_is_for_a_meta_server_reaches_it_before_the_broker_is_ready() -> None:
    """R-REP-5: there is no registry before meta servers have elected a leader."""
    begun, parcels = ground(), list[object]()

    def serve(call: Call[Any]) -> None:
        call.answer(pb.MetaLeaderResponse(leader=3))

    begun.meta_server = cast(MetaServer, SimpleNamespace(serve=serve, receive=parcels.append))
    begun.receivers.append(begun.meta_server)
    async with calling(Dispatcher(begun)) as client:
        found, _ = await client.call(calls.META_LEADER, pb.MetaLeaderRequest())
        assert found.leader == 3
        envelope, _ = encode(
            Parcel(sender=Node(2, 0), receiver=Node(1, 0), cluster_id="c", letters=())
        )
        client.tell(calls.RAFT.number, envelope)
        await client.call(calls.HELLO, pb.HelloRequest())
        assert len(parcels) == 1


@pytest.mark.parametrize("handler", [_refused, _refused_at_once])
async def test_a_handler_of_ours_that_refuses_is_the_answer(
    handler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled_by(handler, calls.FETCH, monkeypatch)
    dispatcher = Dispatcher(ground())
    dispatcher.let_clients(cast(Context, None))
    async with calling(dispatcher) as client:
        with pytest.raises(InvalidRequest, match="no sense"):
            await client.call(calls.FETCH, pb.FetchRequest())


@pytest.mark.parametrize("handler", [_broken, _broken_at_once])
async def test_a_handler_of_ours_that_fails_is_answered(
    handler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled_by(handler, calls.FETCH, monkeypatch)
    dispatcher = Dispatcher(ground())
    dispatcher.let_clients(cast(Context, None))
    async with calling(dispatcher) as client:
        with pytest.raises(InternalError):
            await client.call(calls.FETCH, pb.FetchRequest())


async def test_a_call_that_waits_does_not_keep_what_it_was_received_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-NET-1: the buffer is used again, and may be large."""
    kept: list[Call[Any]] = []

    def keep(context: object, call: Call[Any]) -> None:
        del context
        assert bytes(call.payload) == b"bytes"
        kept.append(call)

    handled_by(keep, calls.STAGE, monkeypatch)
    dispatcher = Dispatcher(ground())
    dispatcher.let_clients(cast(Context, None))
    async with calling(dispatcher) as client:
        staging = asyncio.create_task(client.call(calls.STAGE, pb.StageRequest(), [b"bytes"]))
        await until(lambda: bool(kept))
        assert len(kept[0].payload) == 0
        assert kept[0].principal is None, "nobody has to prove who they are, yet"
        kept[0].answer(pb.StageResponse(already=True))
        response, _ = await staging
        assert response.already
