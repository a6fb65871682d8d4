"""The headers of a message that the queue itself understands, whichever client sets them.

Not user headers, which go through untouched. The invariant: a value is text in ASCII, so a Kafka
client can set it and a person can read it; numbers are decimal. What cannot be read does not count.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "penstock-"

TAG: Final = "penstock-tag"
"""One word that says of what sort the message is, for filters (R-DEL-12). UTF-8."""
EXPIRES_MS: Final = "penstock-expires-ms"
"""From this time on (ms since 1970) the message is not delivered."""
PRIORITY: Final = "penstock-priority"
"""0 to 9: shared groups hand out higher ones first. Without it 4, as in JMS."""

REPLY_TO: Final = "penstock-reply-to"
"""`broker:client` of who waits for a reply."""
CORRELATION: Final = "penstock-correlation"
"""Which of its requests the reply is for."""

# Of dead letters (R-DEL-9): where the message was, why it is dead, how often it was redriven.
DEAD_TOPIC: Final = "penstock-dead-topic"
DEAD_PARTITION: Final = "penstock-dead-partition"
DEAD_OFFSET: Final = "penstock-dead-offset"
DEAD_KEY: Final = "penstock-dead-key"
DEAD_TIMESTAMP_MS: Final = "penstock-dead-timestamp-ms"
DEAD_GROUP: Final = "penstock-dead-group"
DEAD_REASON: Final = "penstock-dead-reason"
DEAD_ATTEMPTS: Final = "penstock-dead-attempts"
DEAD_AT_MS: Final = "penstock-dead-at-ms"
DEAD_NO_VALUE: Final = "penstock-dead-no-value"
"""The message had none: a letter without one would be the mark that it is gone."""
REDRIVES: Final = "penstock-redrives"

PRIORITY_DEFAULT: Final = 4
PRIORITY_MAX: Final = 9

# Of 64 bits, as offsets and times are.
_NUMBER_MAX: Final = 2**63 - 1


def read_number(value: bytes | None) -> int | None:
    """A header's number, from 0 to the largest of 64 bits; None if it is anything else."""
    if value is None or not 0 < len(value) <= 19 or not value.isdigit():
        return None
    number = int(value)
    return number if number <= _NUMBER_MAX else None
