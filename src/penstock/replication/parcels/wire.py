"""Parcels as bytes: one envelope of the published contract, and batches behind it as they are.

Not the sockets. The invariant: what was decoded is sound in every number, and the payloads lie
within the bytes that are there; anything else is a MalformedFrame.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from penstock.model.errors import MalformedFrame
from penstock.model.ids import PartitionId, TopicId
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import parse
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import (
    AppendAnswer,
    AppendRequest,
    CampaignRequest,
    Message,
    ResetRequest,
    VoteAnswer,
    VoteRequest,
)
from penstock.replication.parcels.parcel import Claim, Heartbeat, Letter, Parcel

_TOPIC_ID_BYTES = 16
_Request = pb.RaftRequest


def encode(parcel: Parcel) -> tuple[bytes, list[bytes | memoryview]]:
    """The envelope and the payloads that follow it."""
    request = _Request(
        sender=_pb_node(parcel.sender),
        receiver=_pb_node(parcel.receiver),
        messages=map(_pb_message, parcel.letters),
        heartbeat=None if parcel.heartbeat is None else _pb_heartbeat(parcel.heartbeat),
        cluster_id=parcel.cluster_id,
    )
    payloads = [letter.payload for letter in parcel.letters if letter.payload]
    return request.SerializeToString(), payloads


def decode(envelope: bytes | memoryview, payload: memoryview) -> Parcel:
    """The parcel; its letters' payloads lie in the one given. MalformedFrame."""
    request = parse(_Request, envelope)
    letters = []
    position = 0
    for message in request.messages:
        end = position + message.append.payload_bytes + message.reset.payload_bytes
        if end > len(payload):
            raise MalformedFrame(f"A parcel names {end} bytes of batches and has {len(payload)}.")
        partition = _partition(message.partition)
        letters.append(Letter(partition, _message(message), payload[position:end]))
        position = end
    if position != len(payload):
        raise MalformedFrame(f"A parcel names {position} bytes of batches and has {len(payload)}.")
    has_heartbeat = request.HasField("heartbeat")
    return Parcel(
        sender=_node(request.sender),
        receiver=_node(request.receiver),
        letters=tuple(letters),
        heartbeat=_heartbeat(request.heartbeat) if has_heartbeat else None,
        cluster_id=request.cluster_id,
    )


# --- to protobuf ---------------------------------------------------------------------------------


def _pb_node(node: Node) -> pb.RaftRequest.Node:
    return _Request.Node(broker=node.broker, directory=node.directory)


def _pb_partition(partition: PartitionId) -> pb.RaftRequest.PartitionId:
    topic_id = bytes.fromhex(partition.topic_id)
    return _Request.PartitionId(topic_id=topic_id, partition=partition.partition)


def _pb_message(letter: Letter) -> pb.RaftRequest.Message:
    message = letter.message
    said = _Request.Message(partition=_pb_partition(letter.partition), term=message.term)
    match message:
        case AppendRequest():
            said.append.previous_term = message.previous_term
            said.append.previous_offset = message.previous_offset
            said.append.commit_offset = message.commit_offset
            said.append.payload_bytes = len(letter.payload)
        case AppendAnswer():
            said.append_answer.is_matching = message.is_matching
            said.append_answer.end_offset = message.end_offset
            said.append_answer.last_term = message.last_term
            said.append_answer.asked_offset = message.asked_offset
        case VoteRequest():
            said.vote.last_term = message.last_term
            said.vote.end_offset = message.end_offset
            said.vote.is_trial = message.is_trial
            said.vote.is_transfer = message.is_transfer
        case VoteAnswer():
            said.vote_answer.is_trial = message.is_trial
            said.vote_answer.is_granted = message.is_granted
        case ResetRequest():
            said.reset.start_offset = message.start_offset
            said.reset.start_term = message.start_term
            said.reset.voters.extend(map(_pb_node, sorted(message.membership.voters)))
            said.reset.learners.extend(map(_pb_node, sorted(message.membership.learners)))
            said.reset.payload_bytes = len(letter.payload)
        case CampaignRequest():
            said.campaign.SetInParent()
        case _:
            assert_never(message)
    return said


def _pb_heartbeat(heartbeat: Heartbeat) -> pb.RaftRequest.Heartbeat:
    return _Request.Heartbeat(
        incarnation=heartbeat.incarnation,
        version=heartbeat.version,
        is_whole=heartbeat.is_whole,
        needs_whole=heartbeat.needs_whole,
        claims=[_pb_claim(partition, claim) for partition, claim in heartbeat.claims.items()],
        released=map(_pb_partition, heartbeat.released),
    )


def _pb_claim(partition: PartitionId, claim: Claim) -> pb.RaftRequest.Claim:
    voters = sorted(claim.membership.voters)
    return _Request.Claim(
        partition=_pb_partition(partition),
        term=claim.term,
        commit_offset=claim.commit_offset,
        start_offset=claim.start_offset,
        voters=map(_pb_node, voters),
        learners=map(_pb_node, sorted(claim.membership.learners)),
        is_settled=claim.is_settled,
        in_sync=[place for place, node in enumerate(voters) if node in claim.in_sync],
    )


# --- from protobuf -------------------------------------------------------------------------------


def _number(value: int, minimum: int = 0) -> int:
    if value < minimum:
        raise MalformedFrame(f"A broker sent {value} where a number from {minimum} on is due.")
    return value


def _node(node: pb.RaftRequest.Node) -> Node:
    return Node(node.broker, _number(node.directory))


def _partition(partition: pb.RaftRequest.PartitionId) -> PartitionId:
    if len(partition.topic_id) != _TOPIC_ID_BYTES:
        raise MalformedFrame(f"A topic id has {len(partition.topic_id)} bytes and not 16.")
    return PartitionId(TopicId(partition.topic_id.hex()), partition.partition)


def _message(said: pb.RaftRequest.Message) -> Message:
    term = _number(said.term)
    match said.WhichOneof("said"):
        case "append":
            return AppendRequest(
                term=term,
                previous_term=_number(said.append.previous_term),
                previous_offset=_number(said.append.previous_offset),
                commit_offset=_number(said.append.commit_offset),
            )
        case "append_answer":
            return AppendAnswer(
                term=term,
                is_matching=said.append_answer.is_matching,
                end_offset=_number(said.append_answer.end_offset),
                last_term=_number(said.append_answer.last_term),
                asked_offset=_number(said.append_answer.asked_offset, -1),
            )
        case "vote":
            return VoteRequest(
                term=term,
                last_term=_number(said.vote.last_term),
                end_offset=_number(said.vote.end_offset),
                is_trial=said.vote.is_trial,
                is_transfer=said.vote.is_transfer,
            )
        case "vote_answer":
            answer = said.vote_answer
            return VoteAnswer(term=term, is_trial=answer.is_trial, is_granted=answer.is_granted)
        case "reset":
            return ResetRequest(
                term=term,
                start_offset=_number(said.reset.start_offset),
                start_term=_number(said.reset.start_term),
                membership=Membership(_nodes(said.reset.voters), _nodes(said.reset.learners)),
            )
        case "campaign":
            return CampaignRequest(term=term)
        case other:
            raise MalformedFrame(f"A broker said {other} of a partition, which nobody knows.")


def _nodes(nodes: Iterable[pb.RaftRequest.Node]) -> frozenset[Node]:
    return frozenset(map(_node, nodes))


def _heartbeat(heartbeat: pb.RaftRequest.Heartbeat) -> Heartbeat:
    return Heartbeat(
        incarnation=heartbeat.incarnation,
        version=heartbeat.version,
        is_whole=heartbeat.is_whole,
        needs_whole=heartbeat.needs_whole,
        claims={_partition(claim.partition): _claim(claim) for claim in heartbeat.claims},
        released=tuple(map(_partition, heartbeat.released)),
    )


def _claim(claim: pb.RaftRequest.Claim) -> Claim:
    voters = tuple(map(_node, claim.voters))
    membership = Membership(frozenset(voters), _nodes(claim.learners))
    if not membership.is_sound or any(place >= len(voters) for place in claim.in_sync):
        raise MalformedFrame("A broker claims to lead a partition of nobody.")
    return Claim(
        term=_number(claim.term),
        commit_offset=_number(claim.commit_offset),
        start_offset=_number(claim.start_offset),
        membership=membership,
        is_settled=claim.is_settled,
        in_sync=frozenset(voters[place] for place in claim.in_sync),
    )
