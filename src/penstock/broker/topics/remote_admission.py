"""What may be staged for a partition, whichever broker leads it: what its topic lets in.

It is asked when a batch is staged, so that a commit cannot fail by what it has to write. Where the
partition is led here it is asked itself; of others the topic's settings are known. The invariant:
what is admitted obeys every setting that the topic has now.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.partitions.admission import Admission, Opening
from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partition import Partition
from penstock.broker.topics.topics import Topics
from penstock.model.errors import NotLeader
from penstock.model.ids import TopicId
from penstock.net.clock import Clock
from penstock.records.header import BatchHeader
from penstock.registry.image import TopicImage
from penstock.replication.replica.replica import ACKS_ALL

# Topics whose settings are ready at hand: more than any write has.
_TOPICS_MAX: Final = 100


class StagedAdmission:
    """All calls come from the event loop."""

    def __init__(self, topics: Topics, leaders: Leaders, clock: Clock) -> None:
        self._topics = topics
        self._leaders = leaders
        self._clock = clock
        self._elsewhere: dict[str, tuple[TopicImage, Admission]] = {}

    def admit(
        self, topic: str, partition: int, header: BatchHeader, batch: memoryview, opened_by: Opening
    ) -> tuple[TopicId, memoryview, BatchHeader]:
        """The topic's id, and the checked batch, opened by what `find` had said, as it may be
        appended later. Raises why it may not."""
        topic_id, admission, found = self._find(topic, partition)
        if found is not None and found.lacks_replicas:
            found.check_acks(ACKS_ALL)
        return topic_id, *admission.admit(batch, header, is_appended=False, opened_by=opened_by)

    def find(self, topic: str, partition: int) -> Admission:
        """What its topic has now."""
        return self._find(topic, partition)[1]

    def _find(self, topic: str, partition: int) -> tuple[TopicId, Admission, Partition | None]:
        """The last: where it is led here."""
        try:
            found = self._leaders.find(topic, partition)
        except NotLeader:
            image = self._topics.find(topic)
            return image.id, self._admission(image), None
        return found.topic_id, found.admission, found

    def _admission(self, topic: TopicImage) -> Admission:
        known = self._elsewhere.get(topic.name)
        if known is None or known[0] is not topic:
            if len(self._elsewhere) >= _TOPICS_MAX:
                self._elsewhere.clear()
            config = self._topics.effective_config(topic)
            known = topic, Admission(topic.name, config, self._clock)
            self._elsewhere[topic.name] = known
        return known[1]
