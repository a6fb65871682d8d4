"""The options of the sink: names, defaults, checks. Plain data that travels to the tasks.

The names are those of Spark's Kafka sink where it has them. The invariant: options that are here
have been checked, on the driver, before any row is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from penstock.model.errors import InvalidConfig
from penstock.model.ids import check_topic_name
from penstock.model.limits import BATCH_BYTES_MAX, KIB
from penstock.records import Codec
from penstock.spark.option_values import bootstrap_of, check_names, number, text, warn_of_ignored

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"

BATCH_BYTES_DEFAULT: Final = 512 * KIB

_NAMES: Final = (
    "bootstrap",
    "kafka.bootstrap.servers",
    "topic",
    "compression",
    "delivery",
    "batchBytes",
    "txnAppId",
    "txnVersion",
    # Spark's own, which it hands on to the sink:
    "checkpointLocation",
    "queryName",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """How rows are written."""

    bootstrap: str
    topic: str | None
    """Where all rows go; None: where their column `topic` says."""
    codec: Codec
    is_exactly_once: bool
    batch_bytes: int
    """A record batch is finished when it has this size."""
    transaction_name: str | None
    """The user's own name for a write of several versions, each written once."""
    transaction_version: int


def parse_options(options: Mapping[str, str], *, is_streaming: bool) -> SinkOptions:
    """The options as Spark has them; InvalidConfig or InvalidTopic says what is wrong."""
    _refuse_path(options)
    _warn_once(tuple(check_names(options, _NAMES)))
    bootstrap = bootstrap_of(options)
    if bootstrap is None:
        raise InvalidConfig("There is no broker to write to: set the option `bootstrap`.")
    name, version = _transaction(options, is_streaming=is_streaming)
    is_exactly_once = _is_exactly_once(options)
    if name is not None and not is_exactly_once:
        raise InvalidConfig(
            f"txnAppId says that nothing is written twice, and delivery is {AT_LEAST_ONCE}: "
            f"leave one of them out."
        )
    return SinkOptions(
        bootstrap=bootstrap,
        topic=_topic(options),
        codec=_codec(options),
        is_exactly_once=is_exactly_once,
        batch_bytes=_batch_bytes(options),
        transaction_name=name,
        transaction_version=version,
    )


@cache
def _warn_once(ignored: tuple[str, ...]) -> None:
    """Spark asks for a writer again and again, for every micro-batch."""
    warn_of_ignored(ignored)


def _refuse_path(options: Mapping[str, str]) -> None:
    if text(options, "path") is not None:
        raise InvalidConfig(
            "Rows are written to a topic, not to a path: set the option `topic`, and call save() "
            "or start() without a path."
        )


def _topic(options: Mapping[str, str]) -> str | None:
    topic = text(options, "topic")
    if topic is not None:
        check_topic_name(topic)
    return topic


def _is_exactly_once(options: Mapping[str, str]) -> bool:
    delivery = (text(options, "delivery") or EXACTLY_ONCE).strip().lower()
    if delivery not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise InvalidConfig(
            f"delivery is {delivery!r}: it can be {EXACTLY_ONCE} or {AT_LEAST_ONCE}."
        )
    return delivery == EXACTLY_ONCE


def _codec(options: Mapping[str, str]) -> Codec:
    name = (text(options, "compression") or "none").strip()
    codec = Codec.__members__.get(name.upper())
    if codec is None:
        names = ", ".join(one.lower() for one in Codec.__members__)
        raise InvalidConfig(f"compression is {name!r}: it can be {names}.")
    return codec


def _batch_bytes(options: Mapping[str, str]) -> int:
    size = number(options, "batchBytes", least=KIB)
    if size is None:
        return BATCH_BYTES_DEFAULT
    if size > BATCH_BYTES_MAX:
        raise InvalidConfig(f"batchBytes is {size}: it can be {BATCH_BYTES_MAX} at most.")
    return size


def _transaction(options: Mapping[str, str], *, is_streaming: bool) -> tuple[str | None, int]:
    name = text(options, "txnAppId")
    version = number(options, "txnVersion", least=0)
    if (name is None) != (version is None):
        raise InvalidConfig("txnAppId and txnVersion are set together, or neither of them.")
    if name is None or version is None:
        return None, 0
    if not name.strip():
        raise InvalidConfig("txnAppId is empty: give the write a name, as the query's id.")
    if is_streaming:
        raise InvalidConfig(
            "txnAppId and txnVersion are for batch writes, as in foreachBatch: a streaming query "
            "numbers its writes itself; leave them out."
        )
    return name, version
