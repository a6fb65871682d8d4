"""The list of known bugs still fits the code. It stands apart from the tests that have to notice
the bugs, since a planted one makes it fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.raft_mutations import MUTATIONS, Mutation

RAFT = Path(__file__).parents[2] / "src" / "penstock" / "raft"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_known_bug_can_still_be_planted(mutation: Mutation) -> None:
    source = (RAFT / mutation.file).read_text()
    assert source.count(mutation.old) == 1
    compile(source.replace(mutation.old, mutation.new), mutation.file, "exec")
