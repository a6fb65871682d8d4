"""Claims of topics by producers that want to be alone (R-CORE-6), where the groups are looked
after."""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.broker.groups.answers import decided
from penstock.coordination.group.coordinator import Coordinator
from penstock.coordination.group.effects import Effects, Ticket
from penstock.coordination.group.exclusivity import ClaimGranted, ClaimRequest
from penstock.model.errors import InvalidRequest
from penstock.model.ids import check_public, check_topic_name
from penstock.model.limits import (
    CLAIM_KEEP_MS,
    CLAIMANT_LENGTH_MAX,
    CLIENT_NAME_LENGTH_MAX,
)
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.image import TopicImage

# A setting that was made at another broker is heard of here a little later.
_SETTING_S: Final = 0.5
_LOOK_S: Final = 0.02


async def claim_topic(context: Context, call: Call[pb.ClaimTopicRequest]) -> pb.ClaimTopicResponse:
    """Answered when nobody can write any more who had the topic before."""
    request = call.request
    if not 1 <= len(request.claimant) <= CLAIMANT_LENGTH_MAX:
        raise InvalidRequest(
            f"The claimant is a word of {len(request.claimant)} letters: make one of up to "
            f"{CLAIMANT_LENGTH_MAX} that nobody else has, as a UUID."
        )
    # A claim that is renewed was of a topic: if that is gone, its producer must not bring it back.
    topic = await _exclusive_topic(context, request.topic, may_create=not request.claim)
    wanted = ClaimRequest(
        topic=topic.name,
        topic_id=topic.id,
        claimant=request.claimant,
        client_name=request.client_name[:CLIENT_NAME_LENGTH_MAX],
        is_fencing=request.fence,
        claim=request.claim,
    )

    granted: ClaimGranted = await decided(
        context.groups,
        lambda ticket, groups, now_ms: groups.table.exclusive_topics.claim(ticket, wanted, now_ms),
    )
    if granted.wait_ms:
        # From now on, which is no earlier than it was decided.
        await asyncio.sleep(granted.wait_ms / 1000)
    return pb.ClaimTopicResponse(claim=granted.claim, keep_within_ms=CLAIM_KEEP_MS)


async def release_topic(
    context: Context, call: Call[pb.ReleaseTopicRequest]
) -> pb.ReleaseTopicResponse:
    topic = context.topics.find(call.request.topic)

    def release(ticket: Ticket[None], groups: Coordinator, now_ms: int) -> Effects:
        return groups.table.exclusive_topics.release(
            ticket, topic.id, call.request.claimant, now_ms
        )

    await decided(context.groups, release)
    return pb.ReleaseTopicResponse()


async def _exclusive_topic(context: Context, name: str, *, may_create: bool) -> TopicImage:
    """The topic, which is made if there is none and that is allowed, here and by the settings;
    InvalidRequest if it takes messages of any producer."""
    check_topic_name(name)
    check_public(name)
    give_up_at = context.loop.time() + _SETTING_S
    while True:
        may_make = may_create and context.config.auto_create_topics
        if may_make and not context.partitions.is_closing:
            # Also one that was just deleted: who claims it anew knows nothing of that one.
            await context.topics.keep(name, 0, {"exclusive_producer": "yes"})
        topic = context.topics.find(name)
        if context.topics.effective_config(topic).exclusive_producer == "yes":
            return topic
        if len(context.leaders.brokers) == 1 or context.loop.time() >= give_up_at:
            raise InvalidRequest(
                f"Topic {name!r} takes messages of any producer: let it have one alone first, with "
                f"`penstock topics alter {name} --set exclusive_producer=yes`."
            )
        await asyncio.sleep(_LOOK_S)


async def check_claim(context: Context, call: Call[pb.CheckClaimRequest]) -> pb.CheckClaimResponse:
    return await context.groups_client.questions.check_claim(call.request)
