"""The part of the fake broker that knows claims of topics and replies to requests."""

from __future__ import annotations

from typing import Any

from penstock.model.errors import TopicClaimed
from penstock.protocol import penstock_pb2 as pb
from penstock.records import decode_messages

Envelope = Any  # one protobuf message or another


class FakeDelivery:
    """What it answers when nothing is scripted."""

    def __init__(self) -> None:
        # Who has which topic for itself, and how many claims there were.
        self.claimed: dict[str, str] = {}
        self.claims = 0
        self.keep_claims_ms = 6_000
        self.replies: list[tuple[bytes | None, object]] = []

    def _claimtopic(self, request: pb.ClaimTopicRequest, data: memoryview) -> Envelope:
        holder = self.claimed.get(request.topic)
        if holder not in (None, request.claimant) and (request.claim or not request.fence):
            raise TopicClaimed(f"{request.topic} is claimed by somebody else.")
        if holder != request.claimant:
            self.claims += 1
            self.claimed[request.topic] = request.claimant
        return pb.ClaimTopicResponse(claim=self.claims, keep_within_ms=self.keep_claims_ms)

    def _releasetopic(self, request: pb.ReleaseTopicRequest, data: memoryview) -> Envelope:
        if self.claimed.get(request.topic) == request.claimant:
            del self.claimed[request.topic]
        return pb.ReleaseTopicResponse()

    def _reply(self, request: pb.ReplyRequest, data: memoryview) -> Envelope:
        [message] = decode_messages(data, "", 0, 0)
        self.replies.append((message.value, message.headers))
        return pb.ReplyResponse()
