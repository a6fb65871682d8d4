"""Every bound in the system, with its reason. Not settings: what a user may change is in
`model.topic_config` and `broker.config`, whose defaults come from here."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

# --- names -------------------------------------------------------------------------------------

# Kafka's limit: a topic name is a folder name, and 249 leaves room for a suffix in 255 bytes.
TOPIC_NAME_LENGTH_MAX: Final = 249
# Long enough for any sensible naming scheme; bounds one entry of the offsets table.
GROUP_NAME_LENGTH_MAX: Final = 255
# A committed offset may carry a note of its consumer, as in Kafka (offset.metadata.max.bytes).
OFFSET_METADATA_BYTES_MAX: Final = 4 * KIB

# --- topics ------------------------------------------------------------------------------------

# R-CORE-4: the eleventh partition is refused unless the operator raises the limit.
PARTITIONS_PER_TOPIC_MAX_DEFAULT: Final = 10
# Every broker keeps all topics in memory, and the registry writes all of them at each change.
TOPICS_MAX: Final = 10_000
# Names, or offsets, in one call: so that no call holds up the others for long.
NAMES_PER_CALL_MAX: Final = 10_000
# Offsets of all groups together: they are in memory, about 500 bytes each.
GROUP_OFFSETS_MAX: Final = 1_000_000
# What a client may call itself.
CLIENT_NAME_LENGTH_MAX: Final = 255
# What an operator may raise it to: each partition costs a descriptor and about 10 kB of memory.
PARTITIONS_PER_TOPIC_MAX: Final = 10_000

# --- batches and frames ------------------------------------------------------------------------

# Kafka's default for max.message.bytes, rounded to the whole MiB.
BATCH_BYTES_MAX_DEFAULT: Final = 1 * MIB
# A frame is read into one buffer, so its size bounds what one connection may hold.
FRAME_BYTES_MAX: Final = 64 * MIB
# What a batch may be configured up to: a frame less room for its header and envelope.
BATCH_BYTES_MAX: Final = FRAME_BYTES_MAX - 64 * KIB
# An envelope is a handful of names and numbers; the largest, metadata of 10,000 topics, fits.
ENVELOPE_BYTES_MAX: Final = 8 * MIB
# A hostile batch of a few kB must not decompress into the whole memory of a client.
DECOMPRESSED_BYTES_MAX: Final = 1 * GIB

# --- connections -------------------------------------------------------------------------------

CONNECTIONS_MAX_DEFAULT: Final = 10_000
# Calls a peer may have unanswered before the broker stops reading from it.
CALLS_IN_FLIGHT_MAX: Final = 10_000
# Unsent answer bytes at which a connection stops being read, and at which it is read again.
WRITE_QUEUE_BYTES_HIGH: Final = 4 * MIB
WRITE_QUEUE_BYTES_LOW: Final = 1 * MIB
# Partly received frames of all connections together; beyond it further large frames wait.
RECEIVE_BYTES_MAX: Final = 512 * MIB
# One buffer per event loop that every connection reads small frames through.
RECEIVE_BUFFER_BYTES: Final = 256 * KIB

# --- producers ---------------------------------------------------------------------------------

# Kafka's window: a producer may have five batches in flight, so a retry repeats one of the last 5.
PRODUCER_WINDOW_BATCHES: Final = 5
# Producer ids remembered per partition; beyond it the one longest silent is forgotten.
PRODUCERS_PER_PARTITION_MAX: Final = 10_000
# A producer silent for a day is forgotten, as Kafka's producer.id.expiration.ms has it.
PRODUCER_SILENCE_MS_MAX: Final = 24 * 60 * 60 * 1000

# Envelopes of produce calls whose meaning a connection remembers: a producer's partitions, and
# no envelope that somebody padded.
PRODUCE_TARGETS_MAX: Final = 1_000
PRODUCE_TARGET_BYTES_MAX: Final = 512

# --- fetches -----------------------------------------------------------------------------------

# Fetches that one connection may have waiting, one a partition; further ones are answered at once.
FETCHES_WAITING_MAX: Final = 1_000
# The longest a fetch may wait for data: a client asks again, so nothing is gained beyond it.
FETCH_WAIT_MS_MAX: Final = 5 * 60 * 1000
