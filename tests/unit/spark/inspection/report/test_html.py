"""Nothing from outside can become markup."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.inspection.report.html import Html, element


class Seen(HTMLParser):
    """The elements, attributes and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(st.text())
def test_any_text_stays_text(text: str) -> None:
    seen = Seen(element("p", {"title": text}, text))
    assert [name for name, _ in seen.elements] == ["p"]
    assert list(seen.elements[0][1]) == ["title"]
    shown = "".join(seen.texts)
    assert shown == seen.elements[0][1]["title"]
    if text.isprintable():
        assert shown == text


def test_elements_nest_and_text_beside_them_is_escaped() -> None:
    inner = element("b", None, "1 < 2")
    assert element("p", None, inner, "<b>", None, [inner, 3]) == (
        "<p><b>1 &lt; 2</b>&lt;b&gt;<b>1 &lt; 2</b>3</p>"
    )
    assert isinstance(element("p"), Html)


def test_control_characters_and_halves_of_pairs_are_replaced() -> None:
    assert element("p", None, "a\x00b\ud800c\n") == "<p>a\ufffdb\ufffdc</p>"
