"""The mark that a partition's log may have gaps of offsets: compaction has begun in its folder.

The mark is that `compaction.journal` is there, whatever it holds: how far compaction has come is
`storage.compaction.compaction`'s. Not the topic's setting, which may change back and leave the
gaps. The invariant: the journal is durable before the first gap is, so in a folder without it a gap
of offsets is damage.
"""

from __future__ import annotations

from typing import Final

from penstock.storage.files.files import Directory

COMPACTION_JOURNAL: Final = "compaction.journal"


def is_compacted(directory: Directory) -> bool:
    """Whether sealed segments in the folder may lack offsets, except their last. OSError."""
    return directory.exists(COMPACTION_JOURNAL)
