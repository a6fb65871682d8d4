"""Patterns made by chance match what Python's own expressions match."""

from __future__ import annotations

import contextlib
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.coordination.group.topic_pattern import TopicPattern
from penstock.model.errors import InvalidRegularExpression

atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\.", r"\w", "^", "$", "-", "(?:)"])
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: f"({'|'.join(options)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,1}?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)
names = st.text("ab.-c", min_size=1, max_size=6)


@settings(max_examples=300)
@given(pattern=patterns, some=st.lists(names, max_size=6))
def test_they_match_what_python_matches(pattern: str, some: list[str]) -> None:
    expected = frozenset(name for name in some if re.fullmatch(pattern, name))
    assert TopicPattern(pattern).matching(some) == expected


@given(text=st.text(alphabet=st.sampled_from("ab()[]{}*+?|\\^$.-,:<>P!=iQE12é"), max_size=30))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidRegularExpression):
        assert TopicPattern(text).matching(["a", "ab", "b-1"]) <= {"a", "ab", "b-1"}
