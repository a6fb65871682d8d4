"""Settings of groups as Kafka's users know them: described, changed one by one, replaced.

What they mean and which there are is the groups' (`coordination.group.settings`), who are
asked where they are looked after. The invariant: whichever broker is asked, the answer is the
coordinator's; while there is none, a request waits for a moment, of however many groups it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from penstock.broker.context import Context
from penstock.broker.kafka.settings.table import SettingType
from penstock.broker.kafka.settings.topics import (
    DescribedSetting,
    Operation,
    OperationKind,
    Source,
    Synonym,
)
from penstock.coordination.group.settings import GROUP_SETTINGS, GroupSetting, ValueType
from penstock.model.errors import InvalidConfig, InvalidRequest, PenstockError
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import ALTER_GROUP_SETTINGS
from penstock.protocol.calls import GROUP_SETTINGS as ASK_SETTINGS

# While the coordinator is being elected or reads: tools ask once and give up at what they are told.
# A request with settings of thousands of groups, too.
_WAIT_S_MAX: Final = 5.0
_RETRY_S: Final = 0.1

_TYPES: Final = {
    ValueType.INT: SettingType.INT,
    ValueType.STRING: SettingType.STRING,
    ValueType.BOOLEAN: SettingType.BOOLEAN,
}

ResponseT = TypeVar("ResponseT")


class GroupSettingsCall:
    """What one request asks about settings of groups. Made anew for each."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._wait_s = _WAIT_S_MAX
        # Why it waits no more, and asks no more.
        self._given_up: PenstockError | None = None

    async def configured(self) -> list[str]:
        """The groups that have settings of their own."""
        return list((await self._asked("")).groups)

    async def describe(self, name: str) -> list[DescribedSetting]:
        """Every setting that a group of this name has, or would have."""
        _check_name(name)
        found = await self._asked(name)
        return [_described(row, found.own, found.defaults[row.name]) for row in GROUP_SETTINGS]

    async def replace(
        self, name: str, given: Mapping[str, str | None], validate_only: bool
    ) -> None:
        """What AlterConfigs does: those it names are all the group has."""
        await self._alter(name, _valued(given), (), validate_only, replaces=True)

    async def change(self, name: str, operations: Iterable[Operation], validate_only: bool) -> None:
        """What IncrementalAlterConfigs does."""
        given: dict[str, str | None] = {}
        removed: set[str] = set()
        for operation in operations:
            if operation.name in given or operation.name in removed:
                raise InvalidRequest(
                    f"{operation.name} is changed twice in one request: change once."
                )
            match operation.kind:
                case OperationKind.SET:
                    given[operation.name] = operation.value
                case OperationKind.DELETE:
                    removed.add(operation.name)
                case OperationKind.APPEND | OperationKind.SUBTRACT:
                    raise InvalidConfig(
                        f"{operation.name} is no list: it can only be set or deleted."
                    )
                case _:
                    raise InvalidRequest(
                        f"{operation.kind} is no operation on {operation.name}: there are 0 (set) "
                        "and 1 (delete)."
                    )
        await self._alter(name, _valued(given), sorted(removed), validate_only)

    async def _alter(
        self,
        name: str,
        settings: Mapping[str, str],
        reset: Iterable[str],
        validate_only: bool,
        *,
        replaces: bool = False,
    ) -> None:
        _check_name(name)
        request = pb.AlterGroupSettingsRequest(
            group=name, set=settings, reset=reset, replaces=replaces, only_checked=validate_only
        )
        await self._patiently(
            lambda: self._context.groups_client.ask(ALTER_GROUP_SETTINGS, request)
        )

    async def _asked(self, name: str) -> pb.GroupSettingsResponse:
        request = pb.GroupSettingsRequest(group=name)
        return await self._patiently(lambda: self._context.groups_client.ask(ASK_SETTINGS, request))

    async def _patiently(self, ask: Callable[[], Awaitable[ResponseT]]) -> ResponseT:
        """The answer to one question, for which the request may wait as long as it has not waited
        for those before."""
        loop = self._context.loop
        since_s = loop.time()
        while self._given_up is None:
            try:
                return await ask()
            except PenstockError as error:
                if not error.retriable:
                    raise
                now_s = loop.time()
                self._wait_s -= now_s - since_s
                since_s = now_s
                if self._wait_s <= 0:
                    self._given_up = error
                    raise
            await asyncio.sleep(_RETRY_S)
        raise self._given_up.with_traceback(None)


def _check_name(name: str) -> None:
    if not name:
        raise InvalidRequest("Default group resources are not allowed: name a group.")


def _valued(given: Mapping[str, str | None]) -> dict[str, str]:
    unset = [name for name, text in given.items() if text is None]
    if unset:
        # Kafka's own words, which tools and people know.
        raise InvalidConfig(f"Null value not supported for group configs: {','.join(unset)}")
    return {name: text for name, text in given.items() if text is not None}


def _described(row: GroupSetting, own: Mapping[str, str], default: str) -> DescribedSetting:
    # What holds for all groups was said when the broker was started, or by nobody.
    is_said = row.default not in ("", default)
    source = Source.STATIC_BROKER_CONFIG if is_said else Source.DEFAULT_CONFIG
    synonyms: tuple[Synonym, ...] = (Synonym(row.broker_name or row.name, default, source),)
    if is_said:
        synonyms += (Synonym(row.broker_name, row.default, Source.DEFAULT_CONFIG),)
    if row.name in own:
        synonyms = (Synonym(row.name, own[row.name], Source.GROUP_CONFIG), *synonyms)
    return DescribedSetting(
        name=row.name,
        value=synonyms[0].value,
        type=_TYPES[row.type],
        source=synonyms[0].source,
        read_only=False,
        synonyms=synonyms,
        documentation=row.documentation,
    )
