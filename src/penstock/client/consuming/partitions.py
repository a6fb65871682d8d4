"""The partitions that a consumer reads now, and a group's place in each of them.

Who decides which ones is somebody else: the user (`consumer.assign`), the topics' routes
(`route_following`), or the group (`membership`). The invariant: a partition is fetched exactly if
its acknowledgements are counted, where there is a group to count them for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.client.consuming.committer import Committer
from penstock.client.consuming.fetcher import Fetcher
from penstock.client.consuming.progress import Progress
from penstock.client.consuming.starts import Start
from penstock.model.ids import TopicPartition


class OwnPartitions:
    """Changed by one task at a time; anybody may look."""

    def __init__(self, fetcher: Fetcher, committer: Committer | None) -> None:
        self._fetcher = fetcher
        self.committer = committer

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(*partition) for partition in self._fetcher.feeds]

    def __contains__(self, partition: tuple[str, int]) -> bool:
        return partition in self._fetcher.feeds

    async def add(
        self, starts: Mapping[TopicPartition, Start], *, keeps_starts: bool = False
    ) -> list[TopicPartition]:
        """Read these as well: where the group has come to, or else at these starts. Which of them
        are new is returned.

        keeps_starts: where the group has no place yet, that start becomes it, so that whoever reads
        the partition next does not begin at a later end of it.
        """
        wanted = {each: start for each, start in starts.items() if each not in self}
        committed: dict[TopicPartition, int] = {}
        if self.committer is not None and wanted:
            committed = await self.committer.committed({topic for topic, _ in wanted})
            wanted |= {each: offset for each, offset in committed.items() if each in wanted}
        positions = await self._fetcher.add(wanted)
        if self.committer is not None:
            for each, position in positions.items():
                progress = Progress(position, committed.get(each))
                self.committer.progress[each] = progress
                # The beginning of a log needs no keeping.
                if keeps_starts and each not in committed and starts[each] != "earliest":
                    progress.acknowledge_below(position)
                    self.committer.wake()
        return list(positions)

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these until `release`, whatever the user pauses and resumes."""
        self._set_held(partitions, is_held=True)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        self._set_held(partitions, is_held=False)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these, and forget what was acknowledged and not committed."""
        held = [each for each in partitions if each in self]
        self._fetcher.remove(held)
        if self.committer is not None:
            for each in held:
                del self.committer.progress[each]

    def _set_held(self, partitions: Iterable[TopicPartition], *, is_held: bool) -> None:
        for each in partitions:
            if each in self:
                feed = self._fetcher.feeds[each]
                feed.is_held = is_held
                # What was fetched before is not handed out, or is asked for again.
                self._fetcher.seek(feed, feed.position)
