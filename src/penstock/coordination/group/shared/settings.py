"""How the messages of a shared group are handed out: one set of settings for all its members.

Not the handing out. The settings are the group's: its first member sets them, for as long as the
group is there. The invariant: settings that are kept are within their bounds, and a member that is
let in said nothing that contradicts them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any, Final

from penstock.model.errors import InconsistentSubscription, InvalidFilter, InvalidRequest
from penstock.model.limits import (
    ATTEMPTS_MAX_DEFAULT,
    BACKOFF_MS_DEFAULT,
    BACKOFF_MS_MAX,
    BACKOFF_MS_MAX_DEFAULT,
    LEASE_MS_DEFAULT,
    LEASE_MS_MAX,
    LEASE_MS_MIN,
    SHARE_ATTEMPTS_MAX,
    SHARED_FILTER_BYTES_MAX,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFilter:
    """Which messages the group is for; what is empty does not matter."""

    tags: tuple[str, ...] = ()
    key: bytes | None = None
    key_prefix: bytes | None = None
    expression: str = ""

    def __str__(self) -> str:
        said = {one.name: getattr(self, one.name) for one in fields(self)}
        return ", ".join(f"{name} {value!r}" for name, value in said.items() if value) or "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSettings:
    """All of them, as they are kept."""

    ordered_by_key: bool = False
    lease_ms: int = LEASE_MS_DEFAULT
    attempts_max: int = ATTEMPTS_MAX_DEFAULT
    backoff_ms: int = BACKOFF_MS_DEFAULT
    backoff_ms_max: int = BACKOFF_MS_MAX_DEFAULT
    filter: SharedFilter = field(default_factory=SharedFilter)
    start_latest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSettings:
    """What one member says. A number that is None it leaves to the group."""

    ordered_by_key: bool = False
    lease_ms: int | None = None
    attempts_max: int | None = None
    backoff_ms: int | None = None
    backoff_ms_max: int | None = None
    filter: SharedFilter = field(default_factory=SharedFilter)
    start_latest: bool = False


_NUMBERS: Final = (
    ("lease_ms", LEASE_MS_MIN, LEASE_MS_MAX),
    ("attempts_max", 1, SHARE_ATTEMPTS_MAX),
    ("backoff_ms", 0, BACKOFF_MS_MAX),
    ("backoff_ms_max", 0, BACKOFF_MS_MAX),
)


def check_wanted(wanted: WantedSettings) -> None:
    """Raises InvalidRequest or InvalidFilter."""
    for name, low, high in _NUMBERS:
        value = getattr(wanted, name)
        if value is not None and not low <= value <= high:
            raise InvalidRequest(f"{name} is {value}: it must be from {low} to {high}.")
    longest_ms = wanted.backoff_ms_max
    if longest_ms is not None and longest_ms < (wanted.backoff_ms or 0):
        raise InvalidRequest(
            f"backoff_ms_max is {longest_ms}, less than backoff_ms, which is {wanted.backoff_ms}."
        )
    size_bytes = _filter_bytes(wanted.filter)
    if size_bytes > SHARED_FILTER_BYTES_MAX:
        raise InvalidFilter(
            f"The filter has {size_bytes} bytes: {SHARED_FILTER_BYTES_MAX} is the limit."
        )


def first_settings(wanted: WantedSettings | None) -> SharedSettings:
    """Of a group whose first member says this; a Kafka consumer says nothing."""
    if wanted is None:
        return SharedSettings()
    said = {one.name: getattr(wanted, one.name) for one in fields(wanted)}
    settings = SharedSettings(**{name: value for name, value in said.items() if value is not None})
    if settings.backoff_ms_max < settings.backoff_ms:
        # A first wait that is longer than the usual longest one: it does not grow.
        return SharedSettings(
            **{**_values(settings), "backoff_ms_max": settings.backoff_ms},
        )
    return settings


def check_agrees(
    group: str, settings: SharedSettings, wanted: WantedSettings, decided: Collection[str] = ()
) -> None:
    """Raise InconsistentSubscription with the first setting that the member says otherwise; but
    for those that an operator has decided, which it need not know."""
    for one in fields(wanted):
        if one.name in decided:
            continue
        said, kept = getattr(wanted, one.name), getattr(settings, one.name)
        if said is not None and said != kept:
            raise InconsistentSubscription(
                f"Group {group!r} has {one.name} {_shown(kept)}, and this member says "
                f"{_shown(said)}: say the same, or nothing, or delete the group first."
            )


def to_json(settings: SharedSettings) -> dict[str, object]:
    wanted = settings.filter
    return _values(settings) | {
        "filter": {
            "tags": wanted.tags,
            "key": _encoded(wanted.key),
            "key_prefix": _encoded(wanted.key_prefix),
            "expression": wanted.expression,
        }
    }


def from_json(what: dict[str, Any]) -> SharedSettings:
    """Raises ValueError, KeyError, TypeError or AttributeError where it cannot be read."""
    wanted = what["filter"]
    return SharedSettings(
        ordered_by_key=bool(what["ordered_by_key"]),
        lease_ms=int(what["lease_ms"]),
        attempts_max=int(what["attempts_max"]),
        backoff_ms=int(what["backoff_ms"]),
        backoff_ms_max=int(what["backoff_ms_max"]),
        filter=SharedFilter(
            tags=tuple(str(tag) for tag in wanted["tags"]),
            key=_decoded(wanted["key"]),
            key_prefix=_decoded(wanted["key_prefix"]),
            expression=str(wanted["expression"]),
        ),
        start_latest=bool(what["start_latest"]),
    )


def _values(settings: SharedSettings) -> dict[str, Any]:
    return {one.name: getattr(settings, one.name) for one in fields(settings)}


def _filter_bytes(wanted: SharedFilter) -> int:
    texts = (*wanted.tags, wanted.expression)
    # One more for each tag, or a million empty ones would be nothing.
    return (
        sum(len(text.encode()) + 1 for text in texts)
        + len(wanted.key or b"")
        + len(wanted.key_prefix or b"")
    )


def _shown(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)
