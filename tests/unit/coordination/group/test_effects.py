"""What machines ask of their shell, in order."""

from __future__ import annotations

from penstock.coordination.group.effects import Effects, Record
from tests.kit.models.tickets import Named


def test_effects_keep_their_order() -> None:
    first, second = Record(key=b"1", value=b"a"), Record(key=b"1", value=None)
    effects, later = Effects(), Effects()
    effects.record(first)
    effects.answer(Named("ticket"), "one")
    later.record(second)
    later.answer(Named("other"), "two")
    effects.extend(later)
    assert effects.records == [first, second]
    assert effects.answers == [(Named("ticket"), "one"), (Named("other"), "two")]
