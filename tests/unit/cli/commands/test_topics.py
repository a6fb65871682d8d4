"""`penstock topics`: what `describe` shows together."""

from __future__ import annotations

from penstock.cli.commands.topics import GROUPS
from penstock.model.topic_config import NAMES


def test_every_setting_has_its_group() -> None:
    """A setting added to a topic must not be forgotten here."""
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(NAMES)
