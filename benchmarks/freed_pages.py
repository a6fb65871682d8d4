"""Free memory that has been written before, for appends to find.

On a virtual machine a page that the kernel never used costs up to ten times the CPU time of one it
has just got back, and whoever is measured first meets more of them. Invariant: after this, as many
used pages are free as an append of that size needs, so that every subject meets the same.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_CHUNK: Final = bytes(1024 * 1024)


def free_pages(folder: Path, total_bytes: int) -> None:
    """Write half as much again as an append will, and give it back."""
    path = folder / "freed"
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    for _ in range(total_bytes * 3 // 2 // len(_CHUNK) + 1):
        os.write(file, _CHUNK)
    os.close(file)
    path.unlink()
