"""`penstock cluster`: what is said of partitions, and what is refused before anybody is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from penstock.cli.commands.cluster import _brokers, _left_text
from penstock.cli.main import make_app
from penstock.model.errors import InvalidRequest
from tests.kit.broker.statuses import COPYING, WELL


def test_what_is_left_to_move() -> None:
    assert _left_text([COPYING, COPYING]) == "2 partitions left, 4.0 KiB to copy"
    assert _left_text([replace(WELL, is_reached=False)]) == "1 partition left"


def test_lists_of_brokers() -> None:
    assert _brokers("3,1,2") == (3, 1, 2)
    assert _brokers(" 4") == (4,)
    with pytest.raises(InvalidRequest, match="3,1,2"):
        _brokers("one")


@pytest.mark.parametrize(
    "words",
    [
        ["move", "orders"],
        ["move", "orders", "--to", "1", "--replicas", "2"],
        ["move", "orders", "--partition", "0", "--replicas", "2"],
        ["rebalance", "--leaders", "--dry-run"],
    ],
)
def test_what_contradicts_itself_is_refused(words: list[str]) -> None:
    result = CliRunner().invoke(make_app(), ["cluster", *words])
    assert isinstance(result.exception, InvalidRequest)


@pytest.mark.parametrize("command", ["status", "add", "drain", "move", "rebalance"])
def test_help_has_examples_and_fits_a_narrow_terminal(command: str) -> None:
    text = CliRunner().invoke(make_app(), ["cluster", command, "--help"]).stdout
    assert f"penstock cluster {command}" in text
    assert "Examples:" in text
    assert max(map(len, text.splitlines())) <= 80
