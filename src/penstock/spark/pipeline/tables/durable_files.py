"""Files that outlive a loss of power: made durable, and replaced whole.

Not what is in them, nor who may write. The invariant: whoever reads a file that is replaced finds
all of the old content or all of the new, whatever was killed; a draft may be left beside it.
"""

from __future__ import annotations

import os
from typing import Final

# Of a file that is being written.
DRAFT: Final = ".new"


def replace_file(path: str, content: bytes) -> None:
    """Let the file have this content, durably. OSError."""
    with open(f"{path}{DRAFT}", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}{DRAFT}", path)
    sync_folder(os.path.dirname(path))


def sync_file(path: str) -> None:
    """Make what is in a file durable, whoever wrote it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    sync_file(path)
