"""Which broker looks after the groups, which after staged writes, and which after delayed messages:
the leader of the topic that keeps them.

Not what a coordinator does. The invariant: whoever asks is told a broker that led a moment ago, or
to ask again; that the broker still leads it finds out itself, with each thing that it writes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from penstock.broker.context import Context
from penstock.coordination.delay.records import DELAYED_TOPIC
from penstock.coordination.group.records import OFFSETS_TOPIC
from penstock.coordination.staging.records import WRITES_TOPIC
from penstock.model.errors import NotCoordinator
from penstock.model.ids import BrokerId
from penstock.registry.image import BrokerImage


async def group_coordinator(context: Context) -> BrokerImage:
    """Who looks after the groups. NotCoordinator if nobody does now."""
    return await _leader(context, OFFSETS_TOPIC, context.groups.log.make)


async def staging_coordinator(context: Context) -> BrokerImage:
    """Who looks after staged writes. NotCoordinator if nobody does now."""
    return await _leader(context, WRITES_TOPIC, context.staging.make_topics)


async def delay_coordinator(context: Context) -> BrokerImage:
    """Who looks after delayed messages. NotCoordinator if nobody does now."""
    return await _leader(context, DELAYED_TOPIC, context.delivery.delays.make_topic)


async def _leader(context: Context, topic: str, make: Callable[[], Awaitable[None]]) -> BrokerImage:
    image = context.registry.image
    if topic not in image.topics:
        me = BrokerId(context.config.broker_id)
        if image.brokers.keys() == {me}:
            # There is nobody else, and the topic is made when there is something to keep.
            return image.brokers[me]
        await make()
        image = context.registry.image
    found = image.topics.get(topic)
    leaders = context.leaders
    leader = None if found is None else leaders.brokers.get(leaders.of(found, 0).broker)
    if leader is None:
        raise NotCoordinator(f"{topic} has no leader now: try again.")
    return leader
