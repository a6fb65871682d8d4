"""What an orderly stop leaves for the next start, so that nothing has to be read again.

For each partition: where its log ends, and who produces to it. One journal for all of them, hence
one flush. The invariant: it is removed before anything is appended, because a mark that survived
into a crash would be a lie.
"""

from __future__ import annotations

import base64
import json
import logging
from dataclasses import asdict
from typing import Any, Final

from penstock.model.errors import CorruptLog
from penstock.model.ids import TopicPartition
from penstock.storage.files.files import Directory
from penstock.storage.files.journal import read_journal, remove_journal, write_journal
from penstock.storage.segments.recovery import CleanEnd

logger = logging.getLogger(__name__)

_JOURNAL: Final = "clean.journal"

# The end of each partition's log and its encoded producers.
CleanEnds = dict[TopicPartition, tuple[CleanEnd, bytes]]


def take_clean_ends(directory: Directory) -> CleanEnds | None:
    """What the last stop left, which counts once. None after a crash."""
    ends: CleanEnds = {}
    try:
        data = read_journal(directory, _JOURNAL)
        if data is None:
            return None
        facts: list[dict[str, Any]] = json.loads(data)
        for fact in facts:
            name = TopicPartition(fact.pop("topic"), fact.pop("partition"))
            producers = base64.b64decode(fact.pop("producers"))
            ends[name] = (CleanEnd(**fact), producers)
    except (CorruptLog, ValueError, KeyError, TypeError) as error:
        logger.warning("The mark of the last orderly stop is unusable, so logs are read: %s", error)
        remove_journal(directory, _JOURNAL)
        return None
    remove_journal(directory, _JOURNAL)
    return ends


def leave_clean_ends(directory: Directory, ends: CleanEnds) -> None:
    """Written when every log is closed."""
    facts = [
        {
            "topic": name.topic,
            "partition": name.partition,
            "producers": base64.b64encode(producers).decode(),
            **asdict(end),
        }
        for name, (end, producers) in ends.items()
    ]
    write_journal(directory, _JOURNAL, json.dumps(facts).encode())
