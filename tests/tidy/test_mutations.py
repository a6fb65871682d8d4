"""The list of known bugs still fits the code. It stands apart from the tests that have to notice
the bugs, since a planted one makes it fail."""

from __future__ import annotations

import pytest

from tests.mutations.catalogue import MUTATIONS
from tests.mutations.mutation import SOURCE, Mutation

ROOT = SOURCE.parents[1]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_known_bug_can_still_be_planted(mutation: Mutation) -> None:
    texts: dict[str, str] = {}
    for file, old, new in mutation.edits:
        text = texts.get(file) or (SOURCE / file).read_text()
        assert text.count(old) == 1, file
        texts[file] = text.replace(old, new)
    for file, text in texts.items():
        compile(text, file, "exec")


@pytest.mark.parametrize("name", sorted({test for each in MUTATIONS for test in each.tests}))
def test_the_tests_that_a_known_bug_names_are_there(name: str) -> None:
    path, _, function = name.partition("::")
    assert (ROOT / path).exists()
    assert not function or f"def {function}(" in (ROOT / path).read_text()


def test_names_differ() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(names) == len(set(names))
