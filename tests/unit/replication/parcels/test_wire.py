"""Parcels on the wire: they come back as they were, and nonsense is refused."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import MalformedFrame
from penstock.model.ids import PartitionId, TopicId
from penstock.protocol import penstock_pb2 as pb
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
from penstock.replication.parcels.wire import decode, encode

numbers = st.integers(0, 2**63 - 1)
nodes = st.builds(Node, st.integers(0, 2**32 - 1), numbers)
partitions = st.builds(
    PartitionId,
    st.binary(min_size=16, max_size=16).map(lambda raw: TopicId(raw.hex())),
    st.integers(0, 2**32 - 1),
)
memberships = st.builds(
    Membership, st.frozensets(nodes, max_size=5), st.frozensets(nodes, max_size=2)
)
appends = st.builds(
    AppendRequest,
    term=numbers,
    previous_term=numbers,
    previous_offset=numbers,
    commit_offset=numbers,
    batches=st.just(()),
)
resets = st.builds(
    ResetRequest, term=numbers, start_offset=numbers, start_term=numbers, membership=memberships
)
others: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        AppendAnswer,
        term=numbers,
        is_matching=st.booleans(),
        end_offset=numbers,
        last_term=numbers,
        asked_offset=st.integers(-1, 2**63 - 1),
    ),
    st.builds(
        VoteRequest,
        term=numbers,
        last_term=numbers,
        end_offset=numbers,
        is_trial=st.booleans(),
        is_transfer=st.booleans(),
    ),
    st.builds(VoteAnswer, term=numbers, is_trial=st.booleans(), is_granted=st.booleans()),
    st.builds(CampaignRequest, term=numbers),
)
letters = st.one_of(
    st.builds(Letter, partitions, appends | resets, st.binary(max_size=40)),
    st.builds(Letter, partitions, others, st.just(b"")),
)


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    voters = draw(st.frozensets(nodes, min_size=1, max_size=4))
    learners = draw(st.frozensets(nodes, max_size=2)) - voters
    in_sync = draw(st.frozensets(st.sampled_from(sorted(voters))))
    offsets = (draw(numbers), draw(numbers), draw(numbers))
    return Claim(*offsets, Membership(voters, learners), draw(st.booleans()), in_sync)


heartbeats = st.builds(
    Heartbeat,
    incarnation=numbers,
    version=st.integers(0, 2**64 - 1),
    is_whole=st.booleans(),
    needs_whole=st.booleans(),
    claims=st.dictionaries(partitions, claims(), max_size=3),
    released=st.lists(partitions, max_size=3).map(tuple),
)
parcels = st.builds(
    Parcel,
    sender=nodes,
    receiver=nodes,
    letters=st.lists(letters, max_size=4).map(tuple),
    heartbeat=st.none() | heartbeats,
    cluster_id=st.text(max_size=8),
)


@given(parcels)
def test_a_parcel_comes_back(parcel: Parcel) -> None:
    """R-NET-3: the published .proto is what brokers speak to each other too."""
    envelope, payloads = encode(parcel)
    assert decode(envelope, memoryview(b"".join(payloads))) == parcel


@pytest.mark.parametrize("payload", [b"", b"1234", b"123456"])
def test_bytes_that_were_not_announced_are_refused(payload: bytes) -> None:
    request = AppendRequest(term=1, previous_term=1, previous_offset=1, commit_offset=1)
    letter = Letter(PartitionId(TopicId("a" * 32), 0), request, b"12345")
    envelope, _ = encode(Parcel(sender=Node(1, 1), receiver=Node(2, 1), letters=(letter,)))
    with pytest.raises(MalformedFrame):
        decode(envelope, memoryview(payload))


def said(**fields: object) -> pb.RaftRequest.Message:
    partition = pb.RaftRequest.PartitionId(topic_id=b"t" * 16)
    return pb.RaftRequest.Message(**{"partition": partition, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "message",
    [
        said(),
        said(term=-1, campaign=pb.RaftRequest.Campaign()),
        said(
            partition=pb.RaftRequest.PartitionId(topic_id=b"t"), campaign=pb.RaftRequest.Campaign()
        ),
        said(append=pb.RaftRequest.Append(previous_offset=-1)),
        said(append_answer=pb.RaftRequest.AppendAnswer(asked_offset=-2)),
        said(vote=pb.RaftRequest.Vote(end_offset=-5)),
        said(reset=pb.RaftRequest.Reset(voters=[pb.RaftRequest.Node(directory=-1)])),
    ],
)
def test_nonsense_is_refused(message: pb.RaftRequest.Message) -> None:
    envelope = pb.RaftRequest(messages=[message]).SerializeToString()
    with pytest.raises(MalformedFrame):
        decode(envelope, memoryview(b""))


@pytest.mark.parametrize(
    "facts",
    [{"term": 1}, {"term": -1, "in_sync": []}, {"in_sync": [1]}, {"learners": [(1, 1)]}],
)
def test_a_claim_of_nobody_or_of_nonsense_is_refused(facts: dict[str, Any]) -> None:
    voters = [] if facts == {"term": 1} else [pb.RaftRequest.Node(broker=1, directory=1)]
    learners = [pb.RaftRequest.Node(broker=b, directory=d) for b, d in facts.pop("learners", [])]
    claim = pb.RaftRequest.Claim(
        partition=pb.RaftRequest.PartitionId(topic_id=b"t" * 16),
        voters=voters,
        learners=learners,
        **facts,
    )
    heartbeat = pb.RaftRequest.Heartbeat(claims=[claim])
    with pytest.raises(MalformedFrame):
        decode(pb.RaftRequest(heartbeat=heartbeat).SerializeToString(), memoryview(b""))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_parcel_or_refused(envelope: bytes) -> None:
    with contextlib.suppress(MalformedFrame):
        decode(envelope, memoryview(b""))
