"""Errors: every code once, and back from the wire as what it was."""

from __future__ import annotations

from penstock.model.error_codes import BY_CODE, from_code
from penstock.model.errors import PenstockError


def all_errors(error: type[PenstockError] = PenstockError) -> list[type[PenstockError]]:
    return [error, *(each for child in error.__subclasses__() for each in all_errors(child))]


def test_every_error_of_the_wire_has_its_own_code() -> None:
    mine = [error for error in all_errors() if error.__module__ == "penstock.model.errors"]
    assert len({error.code for error in mine}) == len(mine)
    assert all(BY_CODE[error.code] is error for error in mine)


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
