"""Settings of topics, groups and brokers: described with their source, changed, replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Final, Protocol

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.lookup import check_once, repeated
from penstock.broker.kafka.settings.brokers import (
    DYNAMIC,
    alter_loggers,
    check_dynamic,
    describe_everywhere,
    describe_loggers,
)
from penstock.broker.kafka.settings.groups import GroupSettingsCall
from penstock.broker.kafka.settings.topics import (
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
from penstock.model.ids import BrokerId, check_public, check_topic_name
from penstock.model.topic_config import with_settings
from penstock.protocol.kafka.errors import code_of
from penstock.protocol.kafka.messages import alter_configs as replacing
from penstock.protocol.kafka.messages import incremental_alter_configs as changing
from penstock.protocol.kafka.messages.alter_configs import AlterConfigsResourceResponse
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
    BROKER_LOGGER = 8
    GROUP = 32


# Topics, brokers, brokers' loggers, client metrics, groups: of metrics there are none.
_KAFKA_RESOURCE_TYPES: Final = (2, 4, 8, 16, 32)


# Change the settings of one resource; or, where that is all that is asked for, see if they can be.
_Alter = Callable[[bool], Awaitable[None]]


class _Resource(Protocol):
    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


class _AlteredResource(_Resource, Protocol):
    @property
    def configs(self) -> Sequence[object]: ...


def _name(resource: _Resource) -> str:
    return f"resource {resource.resource_name!r} of type {resource.resource_type}"


async def describe_configs(context: Context, call: Call) -> DescribeConfigsResponse:
    request: DescribeConfigsRequest = call.request
    check_count("resources", len(request.resources))
    twice = repeated(map(_name, request.resources))
    groups = GroupSettingsCall(context)
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
                _described(setting, request)
                for setting in await _settings(context, groups, resource)
            ]
        except PenstockError as error:
            result.error_code = code_of(error)
            result.error_message = error.message
    return DescribeConfigsResponse(results=results)


async def _settings(
    context: Context, groups: GroupSettingsCall, resource: DescribeConfigsResource
) -> Iterable[DescribedSetting]:
    if resource.resource_type == ResourceType.TOPIC:
        topic = context.topics.find(check_topic_name(resource.resource_name))
        settings = describe(topic, context.topics.defaults)
    elif resource.resource_type == ResourceType.BROKER:
        settings = _broker_settings(context)
        if not _is_this(context, resource):  # what holds for every broker of the cluster
            settings = describe_everywhere(context.topics.defaults, settings)
    elif resource.resource_type == ResourceType.BROKER_LOGGER:
        _check_is_this(context, resource)
        settings = describe_loggers()
    elif resource.resource_type == ResourceType.GROUP:
        settings = await groups.describe(resource.resource_name)
    else:
        raise _no_such_resource(resource)
    # Some clients say "all" with an empty list, and Kafka understands them.
    wanted = set(resource.configuration_keys or ())
    return [setting for setting in settings if not wanted or setting.name in wanted]


def _broker_settings(context: Context) -> list[DescribedSetting]:
    here = context.registry.image.brokers.get(BrokerId(context.config.broker_id))
    address = context.config.advertise if here is None else here.address
    return describe_broker(context.config, context.topics.defaults, address)


def _check_is_this(context: Context, resource: _Resource) -> None:
    if not _is_this(context, resource):
        raise InvalidRequest("Loggers are those of one broker: name it by its id.")


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
    groups = GroupSettingsCall(context)
    responses = []
    for resource in request.resources:
        given = {setting.name: setting.value for setting in resource.configs}
        unset = [name for name, value in given.items() if value is None]
        of_broker = partial(replace_all, given=given, rows=DYNAMIC)
        ways: dict[int, _Alter] = {
            ResourceType.TOPIC: partial(
                _alter_topic, context, resource, unset, partial(replace_all, given=given)
            ),
            ResourceType.BROKER: partial(
                _alter_broker, context, resource, list(given), unset, of_broker
            ),
            ResourceType.GROUP: partial(groups.replace, resource.resource_name, given),
        }
        responses.append(await _altered(resource, twice, ways, request.validate_only))
    return replacing.AlterConfigsResponse(responses=responses)


async def incremental_alter_configs(
    context: Context, call: Call
) -> changing.IncrementalAlterConfigsResponse:
    request: changing.IncrementalAlterConfigsRequest = call.request
    check_count("resources", len(request.resources))
    twice = repeated(map(_name, request.resources))
    groups = GroupSettingsCall(context)
    responses = []
    for resource in request.resources:
        operations = _operations(resource.configs)
        names = [operation.name for operation in operations]
        unset = [
            setting.name
            for setting in resource.configs
            if setting.value is None and setting.config_operation != OperationKind.DELETE
        ]
        defaults = context.topics.defaults
        of_topic = partial(change, defaults=defaults.effective, operations=operations)
        below = defaults.below_here if resource.resource_name else defaults.configured
        of_broker = partial(change, defaults=below, operations=operations, rows=DYNAMIC)
        ways: dict[int, _Alter] = {
            ResourceType.TOPIC: partial(_alter_topic, context, resource, unset, of_topic),
            ResourceType.BROKER: partial(_alter_broker, context, resource, names, unset, of_broker),
            ResourceType.BROKER_LOGGER: partial(_alter_loggers, context, resource, operations),
            ResourceType.GROUP: partial(groups.change, resource.resource_name, operations),
        }
        responses.append(await _altered(resource, twice, ways, request.validate_only))
    return changing.IncrementalAlterConfigsResponse(responses=responses)


def _operations(configs: Sequence[changing.AlterableConfig]) -> list[Operation]:
    return [
        Operation(name=setting.name, kind=setting.config_operation, value=setting.value)
        for setting in configs
    ]


async def _altered(
    resource: _AlteredResource, twice: set[str], ways: Mapping[int, _Alter], validate_only: bool
) -> AlterConfigsResourceResponse:
    """Change one resource's settings; an error code, and a sentence where it is one."""
    response = AlterConfigsResourceResponse(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    try:
        check_once(_name(resource), twice)
        check_count("settings", len(resource.configs))
        alter = ways.get(resource.resource_type)
        if alter is None:
            raise _no_such_resource(resource)
        await alter(validate_only)
    except PenstockError as error:
        response.error_code, response.error_message = code_of(error), error.message
    return response


async def _alter_topic(
    context: Context,
    resource: _Resource,
    unset: Sequence[str],
    make_changes: Callable[[Mapping[str, str]], Changes],
    validate_only: bool,
) -> None:
    name = resource.resource_name
    check_public(name)
    _check_has_values(unset)
    if validate_only:
        changes = make_changes(context.topics.find(name).settings)
        with_settings(context.topics.defaults.effective, changes.settings)
    else:
        await context.topics.alter_by(name, make_changes)


async def _alter_broker(
    context: Context,
    resource: _Resource,
    names: Sequence[str],
    unset: Sequence[str],
    make_changes: Callable[[Mapping[str, str]], Changes],
    validate_only: bool,
) -> None:
    _is_this(context, resource)
    check_dynamic(names, _broker_settings(context))
    _check_has_values(unset)
    name = resource.resource_name
    await context.topics.alter_defaults(name, make_changes, is_dry_run=validate_only)


async def _alter_loggers(
    context: Context, resource: _Resource, operations: Sequence[Operation], validate_only: bool
) -> None:
    _check_is_this(context, resource)
    alter_loggers(operations, validate_only=validate_only)


def _check_has_values(unset: Sequence[str]) -> None:
    if unset:
        raise InvalidRequest(f"{unset[0]} has no value: give it one, or delete it.")


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
    if ResourceType.BROKER_LOGGER in wanted:
        resources += [
            ConfigResource(str(number), ResourceType.BROKER_LOGGER) for number in image.brokers
        ]
    if ResourceType.GROUP in wanted:
        names = await _configured_groups(context, is_all_asked=not request.resource_types)
        resources += [ConfigResource(name, ResourceType.GROUP) for name in names]
    return ListConfigResourcesResponse(config_resources=resources)


async def _configured_groups(context: Context, *, is_all_asked: bool) -> list[str]:
    try:
        return await GroupSettingsCall(context).configured()
    except PenstockError as error:
        # Nothing else needs a coordinator, and whoever asks for everything mostly means something
        # else, such as topics; who asks for groups is told.
        if is_all_asked and error.retriable:
            return []
        raise
