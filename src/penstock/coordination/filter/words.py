"""The words of an expression, taken one by one, with the sentence for one that does not belong.

No grammar: `parser` says what may come. The invariant: there is always a next word, for nobody
goes beyond END.
"""

from __future__ import annotations

from typing import NoReturn

from penstock.coordination.filter.lexer import Kind, Token, tokens
from penstock.coordination.filter.problem import problem, quoted
from penstock.model.errors import InvalidFilter

VALUE = "a value"


class Words:
    """Of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._next = 0

    @property
    def token(self) -> Token:
        """The next word."""
        return self._tokens[self._next]

    @property
    def is_signed_number(self) -> bool:
        """Whether the next two words are a sign and a number."""
        return self.is_sign("+", "-") and self._tokens[self._next + 1].kind is Kind.NUMBER

    def is_sign(self, *signs: str) -> bool:
        return self.token.kind is Kind.SIGN and self.token.text in signs

    def is_word(self, word: str) -> bool:
        return self.token.kind is Kind.KEYWORD and self.token.text == word

    def take(self) -> Token:
        token = self.token
        assert token.kind is not Kind.END, "nothing comes after the end"
        self._next += 1
        return token

    def takes_word(self, word: str) -> bool:
        """Take the keyword, if it comes next."""
        if not self.is_word(word):
            return False
        self._next += 1
        return True

    def takes_sign(self, sign: str) -> bool:
        if not self.is_sign(sign):
            return False
        self._next += 1
        return True

    def expect_word(self, word: str) -> None:
        if not self.takes_word(word):
            self.refuse(word)

    def expect_sign(self, sign: str) -> None:
        if not self.takes_sign(sign):
            self.refuse(quoted(sign))

    def expect_text(self, expected: str) -> Token:
        if self.token.kind is not Kind.TEXT:
            self.refuse(expected)
        return self.take()

    def refuse(self, expected: str) -> NoReturn:
        """The word that comes next is not the one that must."""
        token = self.token
        after = f" after {quoted(self._tokens[self._next - 1].written)}" if self._next else ""
        found = "it ends there" if token.kind is Kind.END else f"found {quoted(token.written)}"
        hint = ""
        if expected == VALUE and self.is_word("NULL"):
            hint = "; for what is not there write IS NULL"
        raise self.problem(token, f"expected {expected}{after}, and {found}{hint}")

    def problem(self, token: Token, what: str) -> InvalidFilter:
        """The error to raise, for something wrong there."""
        return problem(self._text, token.position, what)
