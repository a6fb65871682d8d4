"""A disk whose flushes fail from some moment on, for broker processes that tests start.

Not a full disk, which is a limit to the size of files (`tests.system.cluster.test_disks`). The
invariant: nothing fails that is outside the folder that was named.
"""

from __future__ import annotations

import os
from pathlib import Path

_HOOK = Path(__file__).parent / "failing_flushes_hook"


class FailingFlushes:
    """Of one folder, which a broker has as its data."""

    def __init__(self, told: Path) -> None:
        self._told = told

    @property
    def environment(self) -> dict[str, str]:
        """Of the processes that it is to hold for. What else is imported is as in the test's own:
        it may be a copy, with a bug planted in it."""
        path = os.pathsep.join(filter(None, (str(_HOOK), os.environ.get("PYTHONPATH"))))
        return {"PYTHONPATH": path, "FAILING_FLUSHES": str(self._told)}

    def begin(self, folder: Path) -> None:
        """From now on no file in the folder can be flushed."""
        part = self._told.with_suffix(".part")
        part.write_text(f"{folder}{os.sep}")
        part.rename(self._told)

    def end(self) -> None:
        self._told.unlink()
