"""What docs/journey.md names is there: whoever walks a message through the code finds each step."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"


def test_every_module_of_the_journey_exists() -> None:
    named = set(re.findall(r"\*\*`([a-z_/]+)`", (ROOT / "docs" / "journey.md").read_text()))
    assert len(named) > 80
    missing = [
        name
        for name in sorted(named)
        if not (SOURCE / f"{name}.py").exists() and not (SOURCE / name / "__init__.py").exists()
    ]
    assert not missing
