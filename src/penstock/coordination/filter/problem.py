"""What is wrong with an expression, said so that a person sees the place.

The invariant: whatever the text is, the sentence is short, stays within a terminal's line and
sends it no control characters, and the caret stands under the place.
"""

from __future__ import annotations

from typing import Final

from penstock.model.errors import InvalidFilter

# Characters of the text shown before and after the place.
_SHOWN_BEFORE: Final = 40
_SHOWN_AFTER: Final = 30
_QUOTED_LENGTH_MAX: Final = 20


def problem(text: str, position: int, what: str) -> InvalidFilter:
    """The error to raise: at this position (from 0) of the text something is wrong."""
    start = max(0, position - _SHOWN_BEFORE)
    before, after = text[start:position], text[position : position + _SHOWN_AFTER]
    mark_before = "…" if start else ""
    mark_after = "…" if len(text) > position + _SHOWN_AFTER else ""
    shown = mark_before + _printable(before)
    return InvalidFilter(
        f"The filter is wrong at character {position + 1}: {what}.\n"
        f"  {shown}{_printable(after)}{mark_after}\n"
        f"  {' ' * len(shown)}^"
    )


def quoted(text: str) -> str:
    """A piece of the expression, within a sentence."""
    if len(text) > _QUOTED_LENGTH_MAX:
        text = text[: _QUOTED_LENGTH_MAX - 1] + "…"
    text = _printable(text)
    return f'"{text}"' if text.startswith("'") else f"'{text}'"


def _printable(text: str) -> str:
    """As many characters, none of which does anything to a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)
