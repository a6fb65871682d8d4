"""Settings of topics, groups and brokers: described with their source, changed, replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Final, Protocol

from penstock.broker.context import Context
from penstock.broker.handlers.bounds import check_count
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.group_settings import (
    change_group,
    configured_groups,
    describe_group,
    replace_group,
)
from penstock.broker.kafka.lookup import check_once, repeated
from penstock.broker.kafka.topic_settings import (
    Changes,
    DescribedSetting,
    Operation,
    OperationKind,
    change,
    describe,
    describe_broker,
    replace_all,
)
from penstock.model.errors import InvalidRequest, PenstockError, UnsupportedVersion
from penstock.model.ids import check_public, check_topic_name
from penstock.model.topic_config import with_settings
from penstock.protocol.kafka.errors import code_of
from penstock.protocol.kafka.messages import alter_configs as replacing
from penstock.protocol.kafka.messages import incremental_alter_configs as changing
from penstock.protocol.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from penstock.protocol.kafka.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

# Describing one takes a tenth of a millisecond and more: others are served in between.
_RESOURCES_PER_TURN: Final = 20


class ResourceType(IntEnum):
    """What has settings here."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


# Topics, brokers, brokers' loggers, client metrics, groups: of loggers and metrics there are none.
_KAFKA_RESOURCE_TYPES: Final = (2, 4, 8, 16, 32)


class _Resource(Protocol):
    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


def _name(resource: _Resource) -> str:
    return f"resource {resource.resource_name!r} of type {resource.resource_type}"


async def describe_configs(context: Context, call: Call) -> DescribeConfigsResponse:
    request: DescribeConfigsRequest = call.request
    check_count("resources", len(request.resources))
    twice = repeated(map(_name, request.resources))
    results = []
    for number, resource in enumerate(request.resources, 1):
        if number % _RESOURCES_PER_TURN == 0:
            await asyncio.sleep(0)
        result = DescribeConfigsResult(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        results.append(result)
        try:
            check_once(_name(resource), twice)
            result.configs = [
                _described(setting, request) for setting in await _settings(context, resource)
            ]
        except PenstockError as error:
            result.error_code = code_of(error)
            result.error_message = error.message
    return DescribeConfigsResponse(results=results)


async def _settings(
    context: Context, resource: DescribeConfigsResource
) -> Iterable[DescribedSetting]:
    if resource.resource_type == ResourceType.TOPIC:
        topic = context.topics.find(check_topic_name(resource.resource_name))
        settings = describe(topic, context.config.topic_defaults)
    elif resource.resource_type == ResourceType.BROKER:
        # No name means what holds for every broker of the cluster: nothing is set there.
        settings = describe_broker(context.config) if _is_this(context, resource) else []
    elif resource.resource_type == ResourceType.GROUP:
        settings = await describe_group(context, resource.resource_name)
    else:
        raise _no_such_resource(resource)
    # Some clients say "all" with an empty list, and Kafka understands them.
    wanted = set(resource.configuration_keys or ())
    return [setting for setting in settings if not wanted or setting.name in wanted]


def _is_this(context: Context, resource: _Resource) -> bool:
    name = resource.resource_name
    if name not in ("", str(context.config.broker_id)):
        raise InvalidRequest(
            f"{name!r} is not this broker, which is {context.config.broker_id}: ask that one."
        )
    return name != ""


def _described(
    setting: DescribedSetting, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=setting.name,
        value=setting.value,
        read_only=setting.read_only,
        config_source=setting.source,
        is_sensitive=setting.sensitive,
        config_type=setting.type,
        documentation=setting.documentation if request.include_documentation else None,
    )
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(synonym.name, synonym.value, synonym.source)
            for synonym in setting.synonyms
        ]
    return result


async def alter_configs(context: Context, call: Call) -> replacing.AlterConfigsResponse:
    request: replacing.AlterConfigsRequest = call.request
    check_count("resources", len(request.resources))
    twice = repeated(map(_name, request.resources))
    responses = []
    for resource in request.resources:
        given = {setting.name: setting.value for setting in resource.configs}
        unset = [setting.name for setting in resource.configs if setting.value is None]
        changes = _Changes(
            of_topic=partial(replace_all, given=given),
            of_group=partial(replace_group, context, resource.resource_name, given),
            unset=unset,
        )
        code, message = await _alter(context, resource, twice, changes, request.validate_only)
        responses.append(
            replacing.AlterConfigsResourceResponse(
                code, message, resource.resource_type, resource.resource_name
            )
        )
    return replacing.AlterConfigsResponse(responses=responses)


async def incremental_alter_configs(
    context: Context, call: Call
) -> changing.IncrementalAlterConfigsResponse:
    request: changing.IncrementalAlterConfigsRequest = call.request
    check_count("resources", len(request.resources))
    twice = repeated(map(_name, request.resources))
    responses = []
    for resource in request.resources:
        operations = _operations(resource.configs)
        unset = [
            setting.name
            for setting in resource.configs
            if setting.value is None and setting.config_operation != OperationKind.DELETE
        ]
        changes = _Changes(
            of_topic=partial(change, defaults=context.config.topic_defaults, operations=operations),
            of_group=partial(change_group, context, resource.resource_name, operations),
            unset=unset,
        )
        code, message = await _alter(context, resource, twice, changes, request.validate_only)
        responses.append(
            changing.AlterConfigsResourceResponse(
                code, message, resource.resource_type, resource.resource_name
            )
        )
    return changing.IncrementalAlterConfigsResponse(responses=responses)


def _operations(configs: Sequence[changing.AlterableConfig]) -> list[Operation]:
    return [
        Operation(name=setting.name, kind=setting.config_operation, value=setting.value)
        for setting in configs
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """What is asked for, of whatever resource it is."""

    of_topic: Callable[[Mapping[str, str]], Changes]
    of_group: Callable[[bool], Awaitable[None]]
    unset: Sequence[str]
    """What has no value, and should have one."""


async def _alter(
    context: Context,
    resource: _Resource,
    twice: set[str],
    changes: _Changes,
    validate_only: bool,
) -> tuple[int, str | None]:
    """Change one resource's settings; an error code, and a sentence where it is one."""
    try:
        check_once(_name(resource), twice)
        if resource.resource_type == ResourceType.BROKER:
            raise InvalidRequest(
                "A broker's settings cannot be changed while it runs: restart it with others."
            )
        if resource.resource_type == ResourceType.GROUP:
            await changes.of_group(validate_only)
            return 0, None
        if resource.resource_type != ResourceType.TOPIC:
            raise _no_such_resource(resource)
        name = resource.resource_name
        check_public(name)
        if changes.unset:
            raise InvalidRequest(f"{changes.unset[0]} has no value: give it one, or delete it.")
        if validate_only:
            changed = changes.of_topic(context.topics.find(name).settings)
            with_settings(context.config.topic_defaults, changed.settings)
        else:
            await context.topics.alter_by(name, changes.of_topic)
    except PenstockError as error:
        return code_of(error), error.message
    return 0, None


def _no_such_resource(resource: _Resource) -> InvalidRequest:
    return InvalidRequest(
        f"Resources of type {resource.resource_type} have no settings here: topics "
        f"({ResourceType.TOPIC}), brokers ({ResourceType.BROKER}) and groups "
        f"({ResourceType.GROUP}) have."
    )


async def list_config_resources(context: Context, call: Call) -> ListConfigResourcesResponse:
    """Version 0 asked for client metrics only, of which there are none."""
    request: ListConfigResourcesRequest = call.request
    if call.version == 0:
        return ListConfigResourcesResponse()
    wanted = set(request.resource_types or ResourceType)
    unknown = wanted.difference(_KAFKA_RESOURCE_TYPES)
    if unknown:
        raise UnsupportedVersion(f"There are no resources of type {min(unknown)}.")
    image = context.registry.image
    resources = []
    if ResourceType.TOPIC in wanted:
        resources += [
            ConfigResource(topic.name, ResourceType.TOPIC)
            for topic in image.topics.values()
            if not topic.deleting
        ]
    if ResourceType.BROKER in wanted:
        resources += [ConfigResource(str(number), ResourceType.BROKER) for number in image.brokers]
    if ResourceType.GROUP in wanted:
        names = await configured_groups(context)
        resources += [ConfigResource(name, ResourceType.GROUP) for name in names]
    return ListConfigResourcesResponse(config_resources=resources)
