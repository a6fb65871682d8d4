"""Options of the data source as people write them: names without case, values as text.

Shared by the source and the sink; what each option means is theirs. The invariant: an option that
is neither known nor known to have no meaning here is an error that names the nearest one, so a
misspelt option never changes a job in silence.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Final

from penstock.model.errors import InvalidConfig

logger = logging.getLogger(__name__)

KAFKA_PREFIX: Final = "kafka."
# Of Spark's Kafka source and sink, and without a meaning here: how its consumers are kept.
_WITHOUT_EFFECT: Final = (
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
)
_SECURITY: Final = ("kafka.sasl.", "kafka.ssl.")
_SECURITY_PROTOCOL: Final = "kafka.security.protocol"
_SWITCHES: Final = {"true": True, "false": False}


def check_names(options: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Raise InvalidConfig for an option that is not known. Gives those without an effect here."""
    by_lower = {name.lower(): name for name in known}
    without_effect = {name.lower(): name for name in _WITHOUT_EFFECT}
    ignored: list[str] = []
    for name, value in sorted(options.items()):
        lower = name.lower()
        _refuse_security(lower, value)
        if lower in by_lower:
            continue
        if lower in without_effect or lower.startswith(KAFKA_PREFIX):
            ignored.append(without_effect.get(lower, lower))
            continue
        near = get_close_matches(lower, by_lower, n=1)
        hint = f"did you mean {by_lower[near[0]]}?" if near else "see docs/spark.md."
        raise InvalidConfig(f"{name} is no option of the data source penstock: {hint}")
    return ignored


def warn_of_ignored(ignored: Collection[str]) -> None:
    """One warning for all options that are accepted and do nothing."""
    if ignored:
        names = ", ".join(ignored)
        logger.warning("Without an effect on the data source penstock: %s.", names)


def bootstrap_of(options: Mapping[str, str]) -> str | None:
    """The addresses of the brokers, by our name or by Kafka's."""
    return first_of(options, "bootstrap", "kafka.bootstrap.servers")


def first_of(options: Mapping[str, str], *names: str) -> str | None:
    """The value of an option that has several names; two different ones are an error."""
    given = {name: value for name in names if (value := text(options, name)) is not None}
    if len(set(given.values())) > 1:
        said = " and ".join(f"{name} is {value!r}" for name, value in given.items())
        raise InvalidConfig(f"{said}: give one of them.")
    return next(iter(given.values()), None)


def text(options: Mapping[str, str], name: str) -> str | None:
    """The value of an option, whatever the case of its name; None if it was not given."""
    lower = name.lower()
    for given, value in options.items():
        if given.lower() == lower:
            return value
    return None


def switch(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    given = text(options, name)
    if given is None:
        return default
    value = _SWITCHES.get(given.strip().lower())
    if value is None:
        raise InvalidConfig(f"{name} is {given!r}: it can be true or false.")
    return value


def number(options: Mapping[str, str], name: str, *, least: int = 1) -> int | None:
    """A whole number of at least `least`; None if it was not given."""
    given = text(options, name)
    if given is None:
        return None
    try:
        value = int(given)
    except ValueError:
        value = least - 1
    if value < least:
        raise InvalidConfig(f"{name} is {given!r}: it must be a whole number from {least} on.")
    return value


def _refuse_security(lower: str, value: str) -> None:
    is_plain = lower == _SECURITY_PROTOCOL and value.strip().upper() == "PLAINTEXT"
    if is_plain or not lower.startswith((_SECURITY_PROTOCOL, *_SECURITY)):
        return
    raise InvalidConfig(
        f"{lower} asks for a secured connection, which there is not yet: leave it out, and keep "
        f"brokers in a network that you trust."
    )
