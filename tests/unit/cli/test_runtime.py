"""A command that is given a client has the option that says where brokers are, and runs with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.output import show_json
from penstock.cli.runtime import Json, with_client
from penstock.client.concurrency.loop_thread import LoopThread
from penstock.model.errors import UnavailableError
from tests.kit.client.fake_broker import FakeBroker

if TYPE_CHECKING:
    from penstock.client.client import Client

APP = typer.Typer()


@APP.command()
@with_client
async def count(
    mq: Client,
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    more: int = 0,
    as_json: Json = False,
) -> None:
    """Count partitions."""
    found = more + await mq.partition_count(topic, create=True)
    if not found:
        raise typer.Exit(7)
    show_json({"found": found} if as_json else found)


@pytest.fixture
def address() -> Iterator[str]:
    """Of a broker with a loop of its own."""
    with LoopThread() as thread:
        broker = FakeBroker()
        thread.run(broker.start())
        yield broker.address
        thread.run(broker.stop())


def test_its_options_are_those_of_the_function_and_where_brokers_are() -> None:
    shown = CliRunner().invoke(APP, ["--help"]).stdout
    places = [shown.index(each) for each in ("TOPIC", "--more", "--bootstrap", "--json")]
    assert places == sorted(places)
    assert "Count partitions." in shown
    assert "--mq" not in shown


def test_it_runs_with_a_client_and_ends_as_the_function_does(address: str) -> None:
    there = ["orders", "--bootstrap", address]
    assert CliRunner().invoke(APP, [*there, "--more", "2", "--json"]).stdout == '{"found": 3}\n'
    assert CliRunner().invoke(APP, there).stdout == "1\n"
    assert CliRunner().invoke(APP, [*there, "--more", "-1"]).exit_code == 7


def test_without_a_broker_it_does_nothing() -> None:
    run = CliRunner().invoke(APP, ["orders", "--bootstrap", "127.0.0.1:1"])
    assert isinstance(run.exception, UnavailableError)
    assert "No broker answers at 127.0.0.1:1" in str(run.exception)
