"""What a person sees of a wrong expression."""

from __future__ import annotations

from penstock.coordination.filter.problem import problem, quoted


def test_the_caret_stands_under_the_place() -> None:
    """R-DEL-12: a bad expression is refused with the position of the error."""
    assert problem("a = )", 4, "expected a value").message == (
        "The filter is wrong at character 5: expected a value.\n  a = )\n      ^"
    )


def test_of_a_long_text_only_the_neighbourhood_is_shown() -> None:
    sentence, shown, caret = problem("x" * 1000 + "!" + "y" * 1000, 1000, "no").message.split("\n")
    assert sentence.startswith("The filter is wrong at character 1001:")
    assert shown[caret.index("^")] == "!"
    assert len(shown) < 80


def test_a_terminal_is_sent_no_control_characters() -> None:
    lines = problem("a\x1b[31m\n\r = )", 9, "no").message.split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_long_pieces_are_cut() -> None:
    assert len(quoted("x" * 1000)) <= 22
    assert quoted("'x'") == "\"'x'\""
