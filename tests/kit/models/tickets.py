"""Tickets with a name, for machines alone: nobody waits for what they are told."""

from __future__ import annotations


class Named(str):
    """Equal to its name, or number."""

    __slots__ = ()

    def __call__(self, what: object, /) -> None:
        raise AssertionError(f"a machine told {self} {what} itself")
