"""Settings of groups, while their coordinator cannot be reached (R-DEL-3)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.broker.kafka.handlers import configs
from penstock.broker.topics.defaults import TopicDefaults
from penstock.model.errors import NotCoordinator
from penstock.model.topic_config import TopicConfig
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages import alter_configs as replacing
from penstock.protocol.kafka.messages import incremental_alter_configs as changing
from penstock.protocol.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from penstock.protocol.kafka.messages.list_config_resources import ListConfigResourcesRequest
from tests.kit.simulation.loop import VirtualLoop

TOPIC = 2
BROKER = 4
GROUP = 32
NAMES = [f"g{number}" for number in range(100)]


class Nobody:
    """Instead of whoever looks after the groups: nobody leads their topic."""

    def __init__(self) -> None:
        self.asked = 0

    async def ask(self, call: object, request: object) -> object:
        self.asked += 1
        raise NotCoordinator("__offsets has no leader now: try again.")


class Asked:
    """What one request got, how often the coordinator was looked for, and how long it took."""

    def __init__(self, handler: Any, request: object, version: int = 1) -> None:
        loop, nobody = VirtualLoop(), Nobody()
        topics = {"__offsets": SimpleNamespace(name="__offsets", deleting=False)}
        image = SimpleNamespace(topics=topics, brokers={1: None})
        context = SimpleNamespace(
            registry=SimpleNamespace(image=image),
            loop=loop,
            config=SimpleNamespace(broker_id=1),
            groups_client=nobody,
            topics=SimpleNamespace(defaults=TopicDefaults(TopicConfig())),
        )
        call = cast(Any, SimpleNamespace(request=request, version=version))
        try:
            self.response = loop.run_until_complete(handler(context, call))
        finally:
            loop.close()
        self.took_s = loop.time()
        self.looked = nobody.asked


@pytest.mark.parametrize(
    ("handler", "request_"),
    [
        (
            configs.describe_configs,
            DescribeConfigsRequest([DescribeConfigsResource(GROUP, name) for name in NAMES]),
        ),
        (
            configs.alter_configs,
            replacing.AlterConfigsRequest(
                [replacing.AlterConfigsResource(GROUP, name) for name in NAMES]
            ),
        ),
        (
            configs.incremental_alter_configs,
            changing.IncrementalAlterConfigsRequest(
                [changing.AlterConfigsResource(GROUP, name) for name in NAMES]
            ),
        ),
    ],
)
def test_a_request_of_many_groups_waits_as_long_as_one_of_one(
    handler: Any, request_: object
) -> None:
    asked = Asked(handler, request_)
    assert 4 < asked.took_s < 6
    results = getattr(asked.response, "results", None) or asked.response.responses
    assert [one.error_code for one in results] == [ErrorCode.NOT_COORDINATOR] * len(NAMES)
    assert all("no leader now" in one.error_message for one in results)


def test_what_has_settings_is_told_without_groups() -> None:
    """KIP-1142. Whoever asks for everything is after topics and brokers, mostly."""
    asked = Asked(configs.list_config_resources, ListConfigResourcesRequest())
    assert asked.response.error_code == ErrorCode.NONE
    kinds = {one.resource_type for one in asked.response.config_resources}
    assert {TOPIC, BROKER} <= kinds
    assert GROUP not in kinds
    assert asked.looked > 10, "it has waited for a coordinator"
    with pytest.raises(NotCoordinator):
        Asked(configs.list_config_resources, ListConfigResourcesRequest([TOPIC, GROUP]))
