"""Classic groups in Kafka's words: every version of joining, staying, leaving and looking."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.broker.clients.waiters import Waiters
from penstock.broker.context import Context
from penstock.broker.groups import snapshot as group_snapshot
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.handlers.groups import classic as groups
from penstock.model.errors import PenstockError, UnknownMember
from penstock.model.limits import MEMBER_NAME_LENGTH_MAX
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.apis import Api
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.kafka.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.kafka.messages.heartbeat import HeartbeatRequest
from penstock.protocol.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from penstock.protocol.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.kafka.messages.list_groups import ListGroupsRequest
from penstock.protocol.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.kit.broker.groups import Life, living
from tests.kit.broker.kafka_client import KafkaClient, connect, encode_request, kafka_running
from tests.kit.broker.running import running
from tests.kit.simulated_disk import SimulatedDisk

QUICK: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0}


def join_request(**changes: Any) -> JoinGroupRequest:
    settings: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol("range", b"metadata")],
    }
    return JoinGroupRequest(**(settings | changes))


async def join(client: KafkaClient, version: int = 9, **changes: Any) -> Any:
    """Joined, with the id that the broker gave if it gave one first."""
    response = await client.call(apis.JOIN_GROUP, version, join_request(**changes))
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        changes["member_id"] = response.member_id
        response = await client.call(apis.JOIN_GROUP, version, join_request(**changes))
    return response


async def sync(
    client: KafkaClient, joined: Any, assignments: dict[str, bytes] | None = None, version: int = 5
) -> Any:
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(*item) for item in (assignments or {}).items()],
    )
    return await client.call(apis.SYNC_GROUP, version, request)


async def stable(client: KafkaClient, **changes: Any) -> Any:
    joined = await join(client, **changes)
    assert joined.error_code == ErrorCode.NONE
    synced = await sync(client, joined, {joined.member_id: b"mine"})
    assert synced.assignment == b"mine"
    return joined


async def beat(client: KafkaClient, joined: Any, version: int = 4) -> int:
    request = HeartbeatRequest("g", joined.generation_id, joined.member_id)
    response = await client.call(apis.HEARTBEAT, version, request)
    return int(response.error_code)


# --- finding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
async def test_every_group_is_looked_after_here(version: int) -> None:
    async with kafka_running() as (broker, client):
        request = FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"])
        response = await client.call(apis.FIND_COORDINATOR, version, request)
        found = [response] if version < 4 else response.coordinators
        assert len(found) == (1 if version < 4 else 2)
        for one in found:
            assert one.error_code == ErrorCode.NONE
            assert (one.node_id, f"{one.host}:{one.port}") == (1, broker.addresses[0])


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize(
    ("key_type", "code"),
    [(1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), (2, ErrorCode.INVALID_REQUEST)],
)
async def test_what_is_not_supported_is_said_clearly(
    version: int, key_type: int, code: ErrorCode
) -> None:
    async with kafka_running() as (_, client):
        request = FindCoordinatorRequest(key="t", key_type=key_type, coordinator_keys=["t"])
        response = await client.call(apis.FIND_COORDINATOR, version, request)
        found = response if version < 4 else response.coordinators[0]
        assert (found.error_code, found.node_id) == (code, -1)
        assert found.error_message


# --- another broker looks after them -------------------------------------------------------------


class Answers(Waiters):
    """Takes the one answer of a call."""

    client_host = "/127.0.0.1"
    connection: Any = None
    fetch_sessions: Any = None
    share_sessions: Any = None
    is_open = True
    is_reader = False
    principal = None

    def __init__(self) -> None:
        super().__init__()
        self.response: Any = None

    def answered(self, call: Call, response: object) -> None:
        self.response = response

    def unanswerable(self, call: Call, error: PenstockError) -> None:
        raise error


def asked(life: Life, handler: Callable[[Context, Call], None], api: Api, request: object) -> Any:
    answers = Answers()
    handler(life.context, Call(answers, api, api.version_max, 1, "client", request))
    return answers.response


async def test_requests_to_the_wrong_broker_are_sent_on() -> None:
    """R-REP-2: a client that is told so asks again who looks after its group."""
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        life.lose()
        await asyncio.sleep(0)
        code = ErrorCode.NOT_COORDINATOR
        assert asked(life, groups.join_group, apis.JOIN_GROUP, join_request()).error_code == code
        beaten = asked(life, groups.heartbeat, apis.HEARTBEAT, HeartbeatRequest("g", 1, "m"))
        assert beaten.error_code == code
        described = asked(
            life, groups.describe_groups, apis.DESCRIBE_GROUPS, DescribeGroupsRequest(["g"])
        )
        assert described.groups[0].error_code == code
        listed = asked(life, groups.list_groups, apis.LIST_GROUPS, ListGroupsRequest())
        assert (listed.error_code, listed.groups) == (ErrorCode.NONE, []), "all brokers are asked"


async def test_while_groups_are_read_clients_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_snapshot, "_SLICE_RECORDS", 1)
    async with living(SimulatedDisk()) as life:
        for offset in range(5):
            await life.commit("g", offset)
        life.lose()
        life.gain()
        for _ in range(3):
            await asyncio.sleep(0)
        beaten = asked(life, groups.heartbeat, apis.HEARTBEAT, HeartbeatRequest("g", 1, "m"))
        assert beaten.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        listed = asked(life, groups.list_groups, apis.LIST_GROUPS, ListGroupsRequest())
        assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# --- members -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
async def test_every_version_can_join(version: int) -> None:
    """R-DEL-4. Since version 4 a member is given its id first (KIP-394)."""
    async with kafka_running(**QUICK) as (_, client):
        response = await client.call(apis.JOIN_GROUP, version, join_request())
        if version >= 4:
            assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
            assert response.protocol_name == (None if version >= 7 else "")
            request = join_request(member_id=response.member_id)
            response = await client.call(apis.JOIN_GROUP, version, request)
        assert response.error_code == ErrorCode.NONE
        assert response.member_id.startswith("test-")
        assert response.generation_id == 1
        assert response.leader == response.member_id
        assert response.protocol_name == "range"
        assert response.protocol_type == ("consumer" if version >= 7 else None)
        [member] = response.members
        assert (member.member_id, member.metadata) == (response.member_id, b"metadata")


@pytest.mark.parametrize("version", range(6))
async def test_every_version_can_sync(version: int) -> None:
    async with kafka_running(**QUICK) as (_, client):
        joined = await join(client)
        synced = await sync(client, joined, {joined.member_id: b"mine"}, version)
        assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"mine")
        assert synced.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("version", range(5))
async def test_every_version_can_stay(version: int) -> None:
    async with kafka_running(**QUICK) as (_, client):
        joined = await stable(client)
        assert await beat(client, joined, version) == ErrorCode.NONE
        joined.generation_id += 1
        assert await beat(client, joined, version) == ErrorCode.ILLEGAL_GENERATION
        joined.member_id = "other"
        assert await beat(client, joined, version) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(6))
async def test_every_version_can_leave(version: int) -> None:
    async with kafka_running(**QUICK) as (_, client):
        joined = await stable(client)
        request = LeaveGroupRequest(
            "g",
            joined.member_id,
            [MemberIdentity(joined.member_id), MemberIdentity("other")],
        )
        response = await client.call(apis.LEAVE_GROUP, version, request)
        assert response.error_code == ErrorCode.NONE
        if version >= 3:
            codes = [member.error_code for member in response.members]
            assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
        assert await beat(client, joined) == ErrorCode.UNKNOWN_MEMBER_ID
        request.group_id = "nobody"
        response = await client.call(apis.LEAVE_GROUP, version, request)
        if version < 3:
            assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        else:
            codes = [member.error_code for member in response.members]
            assert codes == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


async def test_followers_wait_for_their_leader() -> None:
    """R-DEL-4: each member gets its part of what the leader assigned."""
    async with kafka_running(**QUICK) as (broker, client):
        leader = await stable(client)
        other = await connect(broker)
        joining = asyncio.create_task(join(other))
        async with asyncio.timeout(5):
            while await beat(client, leader) != ErrorCode.REBALANCE_IN_PROGRESS:
                await asyncio.sleep(0)
        leader, follower = await asyncio.gather(join(client, member_id=leader.member_id), joining)
        assert leader.generation_id == follower.generation_id == 2
        assert len(leader.members) == 2
        assert len(follower.members) == 0
        waiting = asyncio.create_task(sync(other, follower))
        await sync(client, leader, {leader.member_id: b"a", follower.member_id: b"b"})
        assert (await waiting).assignment == b"b"
        await other.close()


async def test_a_member_that_vanishes_while_it_waits_is_answered_to_nobody() -> None:
    async with kafka_running(group_initial_rebalance_delay_ms=30) as (broker, client):
        gone = await connect(broker)
        await gone.send(apis.JOIN_GROUP, 3, join_request())
        await gone.close()
        joined = await join(client)
        assert joined.error_code == ErrorCode.NONE


async def test_protocols_are_opaque() -> None:
    """Kafka Connect's workers form a group like any other."""
    async with kafka_running(**QUICK) as (_, client):
        protocols = [JoinGroupRequestProtocol("v0", b"\xff opaque")]
        joined = await join(client, protocol_type="connect", protocols=protocols)
        assert (joined.protocol_type, joined.protocol_name) == ("connect", "v0")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
async def test_joins_that_are_refused(changes: dict[str, Any], code: ErrorCode) -> None:
    async with kafka_running(**QUICK) as (_, client):
        response = await client.call(apis.JOIN_GROUP, 9, join_request(**changes))
        assert response.error_code == code
        assert response.member_id == changes.get("member_id", "")


async def test_a_sync_says_what_was_agreed_on() -> None:
    async with kafka_running(**QUICK) as (_, client):
        joined = await join(client)
        request = SyncGroupRequest("g", joined.generation_id, joined.member_id)
        response = await client.call(apis.SYNC_GROUP, 5, request)
        assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_members_go_on_after_a_crash_of_the_broker() -> None:
    """R-DEL-4: with heartbeats, without a rebalance."""
    disk = SimulatedDisk()
    async with kafka_running(disk=disk.root, **QUICK) as (_, client):
        joined = await stable(client)
        crashed = disk.after_crash("lost")
    async with kafka_running(disk=crashed.root) as (_, client):
        assert await beat(client, joined) == ErrorCode.NONE
        assert (await sync(client, joined)).assignment == b"mine"


async def test_a_disk_that_fails_makes_clients_look_for_a_coordinator_again() -> None:
    disk = SimulatedDisk()
    async with kafka_running(disk=disk.root, **QUICK) as (_, client):
        joined = await join(client)
        disk.capacity_bytes = sum(map(len, disk.files().values()))
        synced = await sync(client, joined, {joined.member_id: b"mine"})
        assert synced.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        disk.capacity_bytes = None


async def test_waiting_members_do_not_hold_up_the_stop() -> None:
    life = running(group_initial_rebalance_delay_ms=60_000)
    broker, _ = await life.__aenter__()
    client = await connect(broker)
    sent = await client.send(apis.JOIN_GROUP, 3, join_request())
    other = await connect(broker)
    async with asyncio.timeout(5):
        while (await describe(other, "g")).group_state != "PreparingRebalance":
            await asyncio.sleep(0)
        await other.close()
        stopping = asyncio.create_task(life.__aexit__(None, None, None))
        response = await client.answer(apis.JOIN_GROUP, 3, sent)
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await client.close()
        await stopping


# --- groups as a whole -------------------------------------------------------------------------


async def describe(client: KafkaClient, name: str, version: int = 6) -> Any:
    request = DescribeGroupsRequest([name])
    response = await client.call(apis.DESCRIBE_GROUPS, version, request)
    [described] = response.groups
    return described


@pytest.mark.parametrize("version", range(7))
async def test_groups_are_described(version: int) -> None:
    async with kafka_running(**QUICK) as (_, client):
        joined = await stable(client, group_instance_id="instance")
        group = await describe(client, "g", version)
        assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Stable")
        assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
        [member] = group.members
        assert member.member_id == joined.member_id
        assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")
        assert (member.member_metadata, member.member_assignment) == (b"metadata", b"mine")
        assert member.group_instance_id == ("instance" if version >= 4 else None)


@pytest.mark.parametrize("version", range(7))
async def test_a_group_that_is_not_there_is_dead(version: int) -> None:
    """KIP-1043: since version 6 it is also an error."""
    async with kafka_running() as (_, client):
        group = await describe(client, "nobody", version)
        assert group.group_state == "Dead"
        assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        assert bool(group.error_message) == (version >= 6)
        assert (await describe(client, "", version)).error_code == ErrorCode.INVALID_GROUP_ID


async def test_a_group_is_described_once_however_often_it_is_named() -> None:
    """A short request must not make an answer of gigabytes."""
    async with kafka_running(**QUICK) as (_, client):
        await stable(client)
        request = DescribeGroupsRequest(["g", "nobody", "g"])
        response = await client.call(apis.DESCRIBE_GROUPS, 6, request)
        assert [group.group_id for group in response.groups] == ["g", "nobody"]


async def test_a_client_of_a_long_name_gets_a_short_id() -> None:
    """It is remembered before the client has joined."""
    async with kafka_running(**QUICK) as (_, client):
        frame = encode_request(apis.JOIN_GROUP, 9, 1, join_request(), client_id="x" * 32_000)
        client.writer.write(frame)
        response = await client.answer(apis.JOIN_GROUP, 9, 1)
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert len(response.member_id) < MEMBER_NAME_LENGTH_MAX


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed(version: int) -> None:
    async with running(**QUICK) as (broker, native):
        client = await connect(broker)
        await native.create("orders")
        await native.commit("simple", 1)
        await stable(client)
        request = ListGroupsRequest()
        response = await client.call(apis.LIST_GROUPS, version, request)
        listed = {group.group_id: group for group in response.groups}
        assert listed.keys() == {"g", "simple"}
        assert listed["g"].protocol_type == "consumer"
        if version >= 4:
            assert listed["simple"].group_state == "Empty"
            request.states_filter = ["stable"]
            response = await client.call(apis.LIST_GROUPS, version, request)
            assert [group.group_id for group in response.groups] == ["g"]
        if version >= 5:
            assert listed["g"].group_type == "classic"
            request.types_filter = ["consumer"]
            response = await client.call(apis.LIST_GROUPS, version, request)
            assert list(response.groups) == []
        await client.close()


@pytest.mark.parametrize("version", range(3))
async def test_groups_are_deleted(version: int) -> None:
    async with running(**QUICK) as (broker, native):
        client = await connect(broker)
        await native.create("orders")
        await native.commit("simple", 1)
        await stable(client)
        request = DeleteGroupsRequest(["g", "simple", "nobody", "simple"])
        response = await client.call(apis.DELETE_GROUPS, version, request)
        assert {result.group_id: result.error_code for result in response.results} == {
            "g": ErrorCode.NON_EMPTY_GROUP,
            "simple": ErrorCode.NONE,
            "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        await client.close()


async def test_groups_that_cannot_be_served(caplog: pytest.LogCaptureFixture) -> None:
    """Every request says so in its own place."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, native):
        await native.create("orders")
        for offset in range(5):
            await native.commit("g", offset)
        crashed = disk.after_crash("lost")
    [path] = [path for path in crashed.files() if "__offsets" in path and path.endswith(".log")]
    crashed.flip_bit(path, 100, 3)
    async with kafka_running(disk=crashed.root) as (_, client):
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await describe(client, "g")).error_code == code
        listed = await client.call(apis.LIST_GROUPS, 5, ListGroupsRequest())
        assert listed.error_code == code
        deleted = await client.call(apis.DELETE_GROUPS, 2, DeleteGroupsRequest(["g"]))
        assert deleted.results[0].error_code == code
        left = await client.call(apis.LEAVE_GROUP, 5, LeaveGroupRequest("g"))
        assert left.error_code == code
    assert "cannot be served" in caplog.text


async def test_native_commits_leave_groups_with_members_alone() -> None:
    async with running(**QUICK) as (broker, native):
        await native.create("orders")
        client = await connect(broker)
        await stable(client)
        with pytest.raises(UnknownMember, match="has members"):
            await native.commit("g", 1)
        await client.close()
