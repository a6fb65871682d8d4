"""Errors: every code once, and back from the wire as what it was."""

from __future__ import annotations

import subprocess
import sys

from penstock.model import errors
from penstock.model.error_codes import BY_CODE, from_code
from penstock.model.errors import PenstockError


def all_errors(error: type[PenstockError] = PenstockError) -> list[type[PenstockError]]:
    return [error, *(each for child in error.__subclasses__() for each in all_errors(child))]


def test_every_error_of_the_wire_has_its_own_code() -> None:
    package = f"{errors.__name__}."
    mine = [error for error in all_errors() if error.__module__.startswith(package)]
    assert len({error.code for error in mine}) == len(mine)
    assert {error.code: error for error in mine} == BY_CODE


def test_what_a_client_raises_by_itself_is_no_error_of_the_wire() -> None:
    """Whichever of them a process imports first: in one that has everything, the client comes
    first."""
    script = (
        "import penstock.client.errors, penstock.model.error_codes as codes;"
        "print(codes.from_code(0, 'what and why'), codes.BY_CODE.get(35))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert told.stdout == "what and why None\n", told.stderr


def test_an_error_comes_back_as_what_it_was() -> None:
    for code, error in BY_CODE.items():
        again = from_code(code, "what and why")
        assert type(again) is error
        assert again.message == "what and why"


def test_an_unknown_code_is_still_an_error() -> None:
    assert type(from_code(9999, "from the future")) is PenstockError
    assert from_code(9999, "from the future", retriable=True).retriable


def test_an_error_without_words_says_what_it_is() -> None:
    assert str(from_code(61, "")).startswith("The broker's disk is full")
