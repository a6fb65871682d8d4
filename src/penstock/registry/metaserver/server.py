"""A meta server's life: its folder, its peers, its timer (R-REP-5).

It runs inside a broker, which offers it the parcels and calls that come on its port, or in a
process of its own (`metaserver.standalone`). Not what it answers (`metaserver.service`). The
invariants: a server that may have lost its folder gives and gets no votes until it has what the
others have; one whose state has a hole asks the others for a snapshot until it has none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from penstock.model.errors import InvalidConfig, PenstockError
from penstock.model.ids import PartitionId, TopicId
from penstock.model.limits import MIB
from penstock.net.channel import Channel
from penstock.net.clock import Clock
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import CampaignRequest, VoteAnswer, VoteRequest
from penstock.registry.metaserver.identity import (
    Identity,
    read_or_make_identity,
    write_identity,
)
from penstock.registry.metaserver.machine import MetaMachine
from penstock.registry.metaserver.news import MetaCall
from penstock.registry.metaserver.service import SESSION_TIMEOUT_MS, MetaService
from penstock.registry.metaserver.state import decode_snapshot
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import Flusher
from penstock.replication.disk.refusals import Refusals
from penstock.replication.parcels.parcel import Parcel
from penstock.replication.peers.peering import Peering
from penstock.replication.replica.replica import Replica
from penstock.replication.replica.transport import TIMING, Surroundings
from penstock.storage.files.files import Directory, typed
from penstock.storage.log.log import Log, LogConfig

logger = logging.getLogger(__name__)

FOLDER: Final = "meta-log"
META_PARTITION: Final = PartitionId(TopicId("0" * 32), 0)
_DIRECTORY: Final = 0
"""Of every meta server, as Raft names it. A broker's is never that."""
_LOG_CONFIG: Final = LogConfig(
    segment_bytes=64 * MIB, segment_ms=1 << 50, index_interval_bytes=4096
)
_SNAPSHOT_TIMEOUT_S: Final = 10.0
_PEER_TIMEOUT_S: Final = 1.0
_LOOK_S: Final = 0.05


class MetaServer:
    """`start` and `stop` belong to the life of the broker or the process."""

    def __init__(
        self,
        data: Directory,
        me: int,
        voters: Mapping[int, str],
        *,
        driver: Driver,
        flusher: Flusher,
        clock: Clock,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        """data: where its folder is, or is to be. voters: the addresses of all meta servers by
        their ids, this one among them."""
        if me not in voters:
            raise InvalidConfig(f"The meta server {me} is not among the servers: name it there.")
        self._data = data
        self._me = Node(me, _DIRECTORY)
        self._voters = dict(voters)
        self._driver = driver
        self._flusher = flusher
        self._clock = clock
        self._session_timeout_ms = session_timeout_ms
        self._peering = Peering(
            self._me,
            lambda: self.cluster_id,
            driver,
            clock,
            incarnation=secrets.randbits(60),
        )
        self._identity: Identity | None = None
        self._folder: Directory | None = None
        self._service: MetaService | None = None
        self._tending: asyncio.Task[None] | None = None

    @property
    def cluster_id(self) -> str:
        """Of the cluster that it keeps; empty as long as it knows none."""
        facts = None if self._service is None else self._service.machine.state.facts
        return "" if facts is None else facts.cluster_id

    async def start(self) -> None:
        """Take part from now on. StorageError, or InvalidConfig if the folder is another's."""
        try:
            folder = self._folder = self._data.subdirectory(FOLDER)
            self._data.flush()
        except OSError as error:
            raise typed(error, f"making the folder {FOLDER} in {self._data.path}") from error
        self._identity = read_or_make_identity(folder, self._me.broker, self._voters)
        around = Surroundings(
            me=self._me,
            driver=self._driver,
            flusher=self._flusher,
            clock=self._clock,
            peers=self._peering.replicas,
            timing=TIMING,
            disk=Refusals(f"The disk of {self._data.path}"),
            draw_delay_ms=lambda: secrets.randbelow(TIMING.election_ms),
        )
        voters = {Node(number, _DIRECTORY): place for number, place in self._voters.items()}
        replica = Replica(
            FOLDER,
            META_PARTITION,
            Log.open(folder, _LOG_CONFIG),
            folder,
            initial=Membership(frozenset(voters)),
            durability="fsync",
            around=around,
        )
        machine = MetaMachine(folder, replica, self._flusher, self._clock)
        self._service = MetaService(
            machine,
            self._voters,
            self._driver,
            around.monotonic_ms,
            session_timeout_ms=self._session_timeout_ms,
        )
        self._peering.know(voters)
        self._peering.start()
        self._peering.replicas.add(self._service.participant)
        self._driver.end_turn()
        self._tending = asyncio.create_task(self._tend(self._service))

    def begin_stopping(self) -> None:
        """Send everybody who waits to another server."""
        if self._service is not None:
            self._service.begin_closing()

    async def stop(self) -> None:
        self.begin_stopping()
        if self._tending is not None:
            self._tending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._tending
            self._tending = None
        await self._peering.stop()
        service, self._service = self._service, None
        if service is not None:
            self._peering.replicas.remove(META_PARTITION)
            self._driver.end_turn()
            await service.machine.when_idle()
            service.machine.replica.close()

    def receive(self, parcel: Parcel) -> None:
        """Take in what came for anybody on this port; the end of the turn must follow."""
        if parcel.receiver != self._me or self._identity is None:
            return
        if not self._identity.may_vote:
            about_votes = VoteRequest | VoteAnswer | CampaignRequest
            letters = [each for each in parcel.letters if not isinstance(each.message, about_votes)]
            parcel = replace(parcel, letters=tuple(letters))
        self._peering.receive(parcel)

    def serve(self, call: MetaCall) -> None:
        """Answer one of the META calls, now or later. What this raises is the answer. The end of
        the turn must follow."""
        assert self._service is not None, "not started"
        self._service.serve(call)

    # --- now and then ----------------------------------------------------------------------------

    async def _tend(self, service: MetaService) -> None:
        while True:
            assert self._identity is not None
            # A new quorum begins when its servers know that it is new.
            delay_s = service.tick_ms / 1000 if self._identity.may_vote else _LOOK_S
            await asyncio.sleep(delay_s)
            try:
                service.tick()
                await self._mend(service)
            except PenstockError as error:
                logger.error("%s", error)
            except Exception:
                logger.exception("The meta server hit a bug")

    async def _mend(self, service: MetaService) -> None:
        machine = service.machine
        if machine.has_hole:
            await self._fill_hole(service)
        identity, folder = self._identity, self._folder
        assert identity is not None
        assert folder is not None
        if not identity.may_vote and (machine.has_all or await self._is_quorum_new(machine)):
            voting = replace(identity, may_vote=True)
            await asyncio.to_thread(write_identity, folder, voting)
            self._identity = voting

    async def _fill_hole(self, service: MetaService) -> None:
        """Whoever has the state may give it: what is applied was committed."""
        first_offset = service.machine.replica.log.first_offset
        request = pb.MetaSnapshotRequest(first_offset=first_offset)
        for number in self._voters:
            channel = self._peering.links.channel(number)
            if channel is None:
                continue
            try:
                _, payload = await channel.call(
                    calls.META_SNAPSHOT, request, timeout_s=_SNAPSHOT_TIMEOUT_S
                )
                snapshot = decode_snapshot(bytes(payload), f"The snapshot of server {number}")
            except PenstockError as error:
                logger.info("No snapshot of meta server %d: %s", number, error)
                continue
            service.install(snapshot)
            self._driver.end_turn()
            return

    async def _is_quorum_new(self, machine: MetaMachine) -> bool:
        """Whether a majority has empty logs, this server among them, and nobody that can be asked
        has another: or what that one knows would be lost."""
        if machine.replica.log.next_offset:
            return False
        channels = map(self._peering.links.channel, self._voters)
        answers = await asyncio.gather(*(_is_empty(each) for each in channels if each is not None))
        return False not in answers and 1 + answers.count(True) > len(self._voters) // 2


async def _is_empty(channel: Channel) -> bool | None:
    """None if it does not say."""
    try:
        response, _ = await channel.call(
            calls.META_LEADER, pb.MetaLeaderRequest(), timeout_s=_PEER_TIMEOUT_S
        )
    except PenstockError:
        return None
    return response.is_empty
