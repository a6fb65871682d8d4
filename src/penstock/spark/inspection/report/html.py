"""HTML that cannot be broken out of: text is escaped where it enters, only elements are trusted.

Keys, topic names and causes come from outside and may be `<script>` or no text at all. The
invariant: an `Html` is made by `element` or `join` alone; every other string is text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final

_VOID: Final = frozenset({"meta", "rect", "line", "circle", "path"})


class Html(str):
    """Markup that is safe to put into a page."""

    __slots__ = ()


Child = Html | str | int | float | None


def element(
    name: str, attributes: Mapping[str, object] | None = None, *children: Child | Iterable[Child]
) -> Html:
    """An element; text in it is escaped, None is left out."""
    given = "".join(
        f' {key}="{_text(value)}"' for key, value in (attributes or {}).items() if value is not None
    )
    if name in _VOID and not children:
        return Html(f"<{name}{given}/>" if name != "meta" else f"<{name}{given}>")
    return Html(f"<{name}{given}>{join(children)}</{name}>")


def join(children: Iterable[Child | Iterable[Child]]) -> Html:
    """Children side by side."""
    parts = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            parts.append(str(child))
        elif isinstance(child, str | int | float):
            parts.append(_text(child))
        else:
            parts.append(str(join(child)))
    return Html("".join(parts))


def style_sheet(css: str) -> Html:
    """Our own style sheet: the one text that is not escaped, since `<style>` holds no markup."""
    assert "<" not in css, "a style sheet has no markup"
    return Html(f"<style>{css}</style>")


def _text(value: object) -> str:
    """Escaped, and without what HTML does not allow in text: control characters, lone halves of
    surrogate pairs."""
    text = str(value)
    clean = "".join(
        letter if letter >= " " and not "\ud800" <= letter <= "\udfff" else "\ufffd"
        for letter in text
        if letter not in "\r\n"
    )
    return escape(clean, quote=True)
