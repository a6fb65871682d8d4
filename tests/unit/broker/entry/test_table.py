"""Every call that is published has its row, and every row is of a call: in both protocols."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from penstock.broker.entry import table
from penstock.broker.entry.columns import Audience, KafkaRow, NativeRow, Operation, Turn
from penstock.broker.entry.table import ELSEWHERE, KAFKA, NATIVE
from penstock.broker.ground import Ground
from penstock.protocol import calls
from penstock.protocol.calls import CALLS
from penstock.protocol.kafka.apis import APIS

ROWS: list[NativeRow | KafkaRow] = [*NATIVE.values(), *KAFKA.values()]


def name_of(row: NativeRow | KafkaRow) -> str:
    return row.kind.name if isinstance(row, NativeRow) else f"Kafka's {row.api.name}"


def test_every_call_has_a_row_and_every_row_a_call() -> None:
    """R-NET-3: or nobody would have decided who may make it."""
    elsewhere = {call.number for call in ELSEWHERE}
    assert set(NATIVE) | elsewhere == set(CALLS)
    assert not set(NATIVE) & elsewhere
    for number, row in NATIVE.items():
        assert row.kind is CALLS[number]


def test_every_api_of_kafka_has_a_row_and_every_row_an_api() -> None:
    """R-NET-5: what is advertised is answered."""
    assert set(KAFKA) == set(APIS)
    for key, row in KAFKA.items():
        assert row.api is APIS[key]


def test_no_call_has_two_rows() -> None:
    assert len(table._NATIVE) == len(NATIVE)
    assert len(table._KAFKA) == len(KAFKA)


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_row_says_of_its_handler_when_it_is_done(row: NativeRow | KafkaRow) -> None:
    is_awaited = inspect.iscoroutinefunction(row.handler)
    assert is_awaited == (row.turn is Turn.WAITING)
    assert len(inspect.signature(row.handler).parameters) == 2


@pytest.mark.parametrize("row", NATIVE.values(), ids=name_of)
def test_a_handler_takes_what_its_row_makes_for_it(row: NativeRow) -> None:
    """The bundle that is there when it is called, and a call of its class and its request."""
    parts, call = inspect.signature(row.handler).parameters.values()
    assert parts.annotation == (Ground.__name__ if row.is_early else "Context")
    name, _, request = str(call.annotation).partition("[")
    assert name == row.call.__name__
    if request:
        assert request in (f"pb.{row.kind.request.__name__}]", "Any]")


def test_only_brokers_need_the_permission_of_brokers() -> None:
    for row in ROWS:
        acts = [need for need in row.needs if need.operation is Operation.CLUSTER_ACTION]
        assert bool(acts) == (row.audience is Audience.BROKER), name_of(row)


def test_what_is_answered_while_a_broker_is_starting_is_no_client_s() -> None:
    early = {row.kind.name for row in NATIVE.values() if row.is_early}
    metas = {call.name for call in CALLS.values() if call.name.startswith("Meta")} - {
        calls.METADATA.name
    }
    assert early == {calls.HELLO.name, calls.RAFT.name} | metas
    for row in NATIVE.values():
        assert not row.is_early or row.kind is calls.HELLO or row.audience is Audience.BROKER


def test_kafka_s_handlers_are_imported_when_they_are_asked_for() -> None:
    """A broker without Kafka clients does not wait for two hundred classes to be made."""
    program = (
        "import sys; import penstock.broker.broker; "
        "print([name for name in sys.modules if name.startswith('penstock.broker.kafka.handlers.') "
        "or name.startswith('penstock.protocol.kafka.messages.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
