"""A log whose sealed segments may be replaced by what compaction made of them.

Not the compaction: that chooses and writes (`storage.compaction.compaction`). The invariant: a
segment that is held is neither deleted nor let go of, and one that stands for several has all of
their offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.storage.files.files import Directory, typed
from penstock.storage.log.compacted import is_compacted
from penstock.storage.segments.chain import ReadableLog
from penstock.storage.segments.segment import Segment


class ReplaceableLog(ReadableLog):
    """All calls come from the thread that writes the log."""

    __slots__ = ("_directory",)

    def __init__(
        self, directory: Directory, segments: list[Segment], *, is_compacted: bool
    ) -> None:
        super().__init__(directory.path, segments, is_compacted=is_compacted)
        self._directory = directory

    @property
    def is_held(self) -> bool:
        """Whether some of its files are being replaced."""
        return any(segment.held for segment in self._segments)

    def hold(self, segments: Sequence[Segment]) -> bool:
        """Before the files of these sealed segments are replaced: keep them open, so that they are
        read by what is open, and let retention wait. False, with nothing held, if they are no
        longer all there, side by side. Ended by `replace`, or by `let_go` if it came to nothing.

        The mark of `storage.log.compacted` must be durable by now.
        """
        if self._place_of(segments) is None:
            return False
        assert is_compacted(self._directory), "compacted without a mark that there may be gaps"
        try:
            for segment in segments:
                segment.hold()
        except OSError as error:
            self.let_go(segments)
            raise typed(error, f"reading {self.name}") from error
        return True

    def let_go(self, segments: Sequence[Segment]) -> None:
        """The held segments keep their files after all."""
        for segment in segments:
            segment.held = False

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Read the compacted segment from now on, which stands for all offsets of the held ones:
        when the names on disk are changed. Slices that were handed out stay readable."""
        place = self._place_of(old)
        assert place is not None, "replaced without being held"
        assert all(segment.held for segment in old), "replaced without being held"
        assert new.first_offset == old[0].first_offset, (new.path, old[0].path)
        assert new.next_offset == old[-1].next_offset, (new.path, old[-1].path)
        new.compacted = True
        self.let_go(old)
        self.is_compacted = True
        self._segments[place : place + len(old)] = [new]
        self._firsts[place : place + len(old)] = [new.first_offset]

    def _place_of(self, segments: Sequence[Segment]) -> int | None:
        """Where these segments stand in the chain, all of them side by side."""
        assert all(segment.sealed for segment in segments), "only sealed segments are compacted"
        if not segments or segments[0] not in self._segments:
            return None
        place = self._segments.index(segments[0])
        is_whole = self._segments[place : place + len(segments)] == list(segments)
        return place if is_whole else None
