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
# Copies of a partition, where nobody says how many and there are enough brokers.
REPLICATION_FACTOR: Final = 3
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
# What the broker itself opens a batch to: it has everybody to serve.
OPENED_BATCH_BYTES_MAX: Final = FRAME_BYTES_MAX
# And, of what producers send to a topic that has it opened, so many times what the topic takes in a
# batch: text, logs and JSON shrink to a tenth. Small topics have the second in any case.
OPENED_EXPANSION_MAX: Final = 16
OPENED_BATCH_BYTES_MIN: Final = 4 * MIB
# Headers of one record where the broker looks into it, which it does record by record: programs
# write ten or so, and a thousand take ten microseconds.
RECORD_HEADERS_MAX: Final = 1_000
# What is opened at once in one turn of the loop, of all clients together, and of one batch: some
# milliseconds of gzip. The rest is opened in turns, and what is larger by threads.
OPENED_PER_TURN_BYTES_MAX: Final = 512 * KIB
OPENED_AT_ONCE_BYTES_MAX: Final = 256 * KIB
# Of batches that take more than this compressed, it is likely that they do not stay within that.
OPENED_AT_ONCE_COMPRESSED_BYTES_MAX: Final = 64 * KIB
# What is made of records may be an object for each: some milliseconds of them.
OPENED_AT_ONCE_RECORDS_MAX: Final = 4_000
# What may wait on a broker, as it came, for a thread that opens it.
OPENING_BYTES_MAX: Final = 64 * MIB

# --- compaction --------------------------------------------------------------------------------

# Keys that one compaction tells apart, at about 150 bytes of memory each; those beyond, and one
# batch more, are for the next one.
COMPACTION_KEYS_MAX: Final = 1_000_000

# --- what is gone ------------------------------------------------------------------------------

# Removals remembered for each partition, some 8 kB of journal: written whole when one is added.
REMOVALS_MAX: Final = 64
# Deleted topics remembered, and partitions of all of them together: the registry's journal has
# them in it, and is written whole at every change.
DELETED_TOPICS_MAX: Final = 1_000
DELETED_PARTITIONS_MAX: Final = 10_000
# For so long nobody's use of a deleted topic makes it again: longer than it takes those that use it
# to notice, and shorter than a producer waits for a topic (a minute, in Kafka's).
DELETED_TOPIC_STAYS_MS: Final = 30_000
# Elections of a topic that whoever deletes it may not have heard of: they are one or two, unless he
# is cut off, and each takes its second.
UNHEARD_ELECTIONS_MAX: Final = 10
# The latest term that a topic begins in: it is an int32 in batches and for Kafka's clients, and
# half of them are left for its elections. Some ninety million deletions of replicated topics.
FIRST_TERM_MAX: Final = 2**30

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
# Producers of which a partition remembers that it turned one of their batches away: any of those
# that it may know. In a topic that was made anew each is turned away once, and were the first
# forgotten before they come again, none of them would ever go on.
REFUSED_PRODUCERS_MAX: Final = PRODUCERS_PER_PARTITION_MAX
# And for how long after the last of them: as long as Kafka's producers try (delivery.timeout.ms).
REFUSAL_MS_MAX: Final = 2 * 60 * 1000
# How long a gap in a producer's sequence may be one that is filled yet, where another led before:
# several times as long as Kafka's producers wait before they try again (retry.backoff.max.ms).
GAP_MS_MAX: Final = 10 * 1000
# A producer silent for a day is forgotten, as Kafka's producer.id.expiration.ms has it.
PRODUCER_SILENCE_MS_MAX: Final = 24 * 60 * 60 * 1000

# Producer ids that are drawn by lot for the copies of staged writes begin here, far beyond those
# that are counted. So every partition knows them, also on a broker that knows of no staged write.
COPY_PRODUCER_ID_MIN: Final = 2**62
# It remembers those apart from the others, one for each committed epoch that it has a part of: a
# copy that goes on after its coordinator or its partition's leader was lost must be recognised.
# Some 300 bytes each; a copy that takes longer than so many others, or than a month, may repeat.
COPY_PRODUCERS_PER_PARTITION_MAX: Final = 1_000
COPY_PRODUCER_SILENCE_MS_MAX: Final = 30 * 24 * 60 * 60 * 1000

# Envelopes of produce calls whose meaning a connection remembers: a producer's partitions, and
# no envelope that somebody padded.
PRODUCE_TARGETS_MAX: Final = 1_000
PRODUCE_TARGET_BYTES_MAX: Final = 512

# --- groups ------------------------------------------------------------------------------------

# They are all in memory, with their members; beyond it somebody makes them up.
GROUPS_MAX: Final = 100_000
# What the members of all groups say of themselves, together: it is in memory twice.
GROUPS_BYTES_MAX: Final = 128 * MIB

# What one member of a classic group may join with: Kafka Streams has the largest, some 100 kB.
GROUP_MEMBER_BYTES_MAX: Final = 1 * MIB
# A classic group is one record, rewritten at each generation; its topic takes batches of 9 MiB.
GROUP_RECORD_BYTES_MAX: Final = 8 * MIB
# As in Kafka: a new member has no heartbeats, so one that is gone while its join waits would stay.
GROUP_NEW_MEMBER_WAIT_MS_MAX: Final = 5 * 60 * 1000
# With less a member would be removed before its next request can arrive.
GROUP_REBALANCE_TIMEOUT_MS_MIN: Final = 1_000

# --- leases of shared groups -------------------------------------------------------------------

# Offsets from the first that is not done to the last that is leased: what a group keeps of a
# partition is at most five bytes for each, and so fits into 64 KiB with all that is about it.
SHARE_WINDOW_OFFSETS_MAX: Final = 10_000
# What a member may say of why it failed: kept for each message until its dead letter is written.
SHARE_REASON_CHARACTERS_MAX: Final = 256
# And of all of them together what is durable before that; beyond it a new leader does not know.
SHARE_REASONS_BYTES_MAX: Final = 4 * KIB
# A message may be released for later, for so long: it keeps its place in the window, so that the
# group does not get further than a window beyond it. Delayed messages have no such limit.
SHARE_DELAY_MS_MAX: Final = 24 * 60 * 60 * 1000
# What shared groups allow for attempts, and what one byte holds.
SHARE_ATTEMPTS_MAX: Final = 100

# --- shared groups -----------------------------------------------------------------------------

# How long a message is one member's: shorter than a second it runs out on the way, and for longer
# than a quarter of an hour nobody should have to wait for what a lost member held.
LEASE_MS_MIN: Final = 1_000
LEASE_MS_MAX: Final = 15 * 60 * 1000
LEASE_MS_DEFAULT: Final = 30_000
# Kafka's share groups give up after five (group.share.delivery.count.limit).
ATTEMPTS_MAX_DEFAULT: Final = 5
# Before the second attempt, before any later one, and what may be asked for.
BACKOFF_MS_DEFAULT: Final = 1_000
BACKOFF_MS_MAX_DEFAULT: Final = 5 * 60 * 1000
BACKOFF_MS_MAX: Final = 60 * 60 * 1000
# The filter of a group is in every record of its facts.
SHARED_FILTER_BYTES_MAX: Final = 16 * KIB
# Where a group stands in a partition: bounded by the window of messages that may be out.
SHARE_STATE_BYTES_MAX: Final = 64 * KIB
# Of all groups in all partitions together, in memory; and what each takes besides its bytes.
SHARE_STATES_BYTES_MAX: Final = 256 * MIB
SHARE_STATE_BYTES_EACH: Final = 512

# Share sessions (KIP-932) of all Kafka consumers of shared groups, as Kafka has it, and the
# partitions in all of them.
SHARE_SESSIONS_MAX: Final = 2_000
SHARE_SESSION_PARTITIONS_MAX: Final = 200_000
# Messages in one answer to a Kafka consumer of shared groups, one batch at least: unlike those of
# other fetches they are in memory until they are sent.
SHARE_FETCH_BYTES_MAX: Final = 8 * MIB
# Shared groups in the partitions that one broker leads, each in memory with its window.
SHARES_MAX: Final = 10_000

# --- fetches -----------------------------------------------------------------------------------

# Fetches that one connection may have waiting, one a partition; further ones are answered at once.
FETCHES_WAITING_MAX: Final = 1_000
# The longest a fetch may wait for data: a client asks again, so nothing is gained beyond it.
FETCH_WAIT_MS_MAX: Final = 5 * 60 * 1000

# --- Kafka's protocol --------------------------------------------------------------------------

# Requests other than produce: the largest, a leader's SyncGroup for thousands of members, fits.
KAFKA_REQUEST_BYTES_MAX: Final = 8 * MIB
# Produce requests of one connection under way, before it is not read: clients have five or so.
KAFKA_PRODUCES_IN_FLIGHT_MAX: Final = 1_000
# Fetch sessions (KIP-227) of all clients, as Kafka has it, and the partitions in all of them: half
# a kB each, whether they exist or not. Without a session a client names its partitions each time.
FETCH_SESSIONS_MAX: Final = 1_000
FETCH_SESSION_PARTITIONS_MAX: Final = 200_000

# --- subscriptions of consumer groups ----------------------------------------------------------

# Member, instance, rack and host names: a client's name (255) and a UUID, with room. They are
# kept for every member.
MEMBER_NAME_LENGTH_MAX: Final = 512
# All topic names one member may subscribe to, together: they are one record of the group.
SUBSCRIPTION_CHARACTERS_MAX: Final = 512 * KIB
# Room for an alternative of some hundred topic names.
TOPIC_PATTERN_LENGTH_MAX: Final = 4 * KIB
# What RE2 may take for one pattern.
TOPIC_PATTERN_BYTES_MAX: Final = 64 * KIB
# Letters of names times parts of a pattern, for one look at the topics: about half a second.
TOPIC_PATTERN_WORK_MAX: Final = 500_000_000

# Points of each member on the ring of its assignor: as many as brokers have on theirs.
VIRTUAL_NODES_PER_MEMBER: Final = 64
# A member of ours whose connection ended has so long to come back before it is taken for dead: many
# times what reconnecting takes, and far below the session of one that is merely silent.
MEMBER_LOST_MS_MAX: Final = 3_000
# --- filters of messages -----------------------------------------------------------------------

# An expression is kept by the broker, made ready, at some hundred bytes a part: a page of text is
# more than anybody reads, and 256 parts take a message some 25 µs.
FILTER_EXPRESSION_BYTES_MAX: Final = 4 * KIB
FILTER_NODES_MAX: Final = 256
# Each level is some ten calls deep in the parser, well within what Python's own stack holds.
FILTER_NESTING_MAX: Final = 32
# Tags of one filter, and bytes of a tag and of a key that is asked for.
FILTER_TAGS_MAX: Final = 100
FILTER_TAG_BYTES_MAX: Final = 255
FILTER_KEY_BYTES_MAX: Final = 4 * KIB
# A longer value is no number (64-bit ones have 20 digits); reading it would take long.
FILTER_NUMBER_BYTES_MAX: Final = 64
# A pattern is looked for in values up to this size; with `_` in it that may take its length times
# the pattern's.
FILTER_LIKE_BYTES_MAX: Final = 4 * KIB
# What one message may cost, in comparisons of a tenth of a microsecond: looking is not interrupted
# within a message, and nobody should wait for longer than a millisecond.
FILTER_COST_MAX: Final = 10_000
# Filters that a broker keeps ready, some 100 kB each at the most; others are parsed again.
FILTERS_KEPT_MAX: Final = 256
# What one filtered fetch looks at, decompressed, before it answers with what it has found; one
# batch may go beyond it. A client learns that often how far it is.
FILTERED_BYTES_MAX: Final = 4 * MIB
# Filtered reads under way at a time; others wait for their turn. Each holds what it has read and
# one opened batch, which is 1 MiB mostly and 64 MiB at the worst.
FILTERED_READS_MAX: Final = 8
# Members of groups that one connection may speak for: a process has a handful.
MEMBERSHIPS_PER_CONNECTION_MAX: Final = 1_000

# --- replication -------------------------------------------------------------------------------

# Requests to one follower that it has not answered: they hide a round trip's time, and bound what
# a follower that stalls makes its leader hold.
APPEND_REQUESTS_ON_THE_WAY_MAX: Final = 16
# Read of a log at once for a follower: large enough that the calls do not show, small enough that
# live traffic does not wait for it.
APPEND_BYTES_MAX: Final = 1 * MIB
# Such requests to one follower in one turn of the loop: so the window fills, a little at a time.
APPEND_REQUESTS_PER_TURN_MAX: Final = 2
# The batches of all partitions in one frame to a peer: several turns' worth, and well within one.
PARCEL_BYTES_MAX: Final = 16 * MIB
# Partitions that one leading broker lets one other broker catch up with at the same time: the rest
# of a large move waits, or all of it would be slow and none of it done.
PARTITIONS_CATCHING_UP_MAX: Final = 4
# Leaders that a broker gives back to the preferred brokers in one look at all of them: each costs
# its producers a moment.
LEADERS_RETURNED_MAX: Final = 20
# A follower that has not had everything for so long is not in sync: long enough for a pause of its
# disk, short of the 30 s that Kafka gives it (replica.lag.time.max.ms).
IN_SYNC_LAG_MS_MAX: Final = 10_000
# Messages of partitions in one frame to a peer: some 60 bytes of its envelope each.
PARCEL_LETTERS_MAX: Final = 20_000
# What waits to be sent to one peer before messages are dropped, which Raft repeats; at twice as
# much the peer does not keep up even with heartbeats, and is disconnected.
PEER_QUEUE_BYTES_MAX: Final = 32 * MIB
# What a copy that begins anew is told of what came before: producers, some 100 bytes each.
RESET_PAYLOAD_BYTES_MAX: Final = 8 * MIB
# Messages to one replica that wait while it saves its state, with their batches; further ones are
# dropped, and sent again. No more than its leader has on the way to it, and what the others say.
MESSAGES_WAITING_MAX: Final = 32

# --- registry ----------------------------------------------------------------------------------

# Points of each broker on the ring of placement: with so many, arcs differ by a tenth or so.
VIRTUAL_NODES_PER_BROKER: Final = 64
# Kafka's broker ids are 32 bits wide on the wire.
BROKER_ID_MAX: Final = 2**31 - 1
# Host names have 253 characters; an address has a port as well.
HOST_LENGTH_MAX: Final = 253
ADDRESS_LENGTH_MAX: Final = 512
# Every change waits for most of them: more make the registry slower, and hardly safer.
META_SERVERS_MAX: Final = 9
# Copies of one partition: each costs the leader all that it receives, once more.
REPLICATION_FACTOR_MAX: Final = 100
# Somebody else's change of the same topic gets in between: more often than this it is no chance.
REGISTRY_CONFLICTS_MAX: Final = 20
# What ZooKeeper holds in one znode, and takes in one transaction (jute.maxbuffer), less room for
# names and headers.
ZNODE_BYTES_MAX: Final = 1_000_000
# Moves of partitions in one change: all partitions of the largest cluster, and so 4 MB of JSON.
MOVES_PER_CHANGE_MAX: Final = 100_000
# A change as the meta servers keep it: one record of their log, and the largest move fits.
META_CHANGE_BYTES_MAX: Final = 8 * MIB - 64 * KIB
# Changes whose outcome the meta servers remember, so that one that is sent again is not made twice:
# as many as a busy cluster makes while a broker waits for an answer, some 60 bytes each.
META_OUTCOMES_MAX: Final = 5_000
# Changes that the meta servers keep at hand for brokers that have all but the latest; who lacks
# more gets everything.
META_FEED_CHANGES_MAX: Final = 2_000
META_FEED_BYTES_MAX: Final = 2 * MIB
# Changes behind the last snapshot: so many are read again at a start, in less than a second.
META_SNAPSHOT_CHANGES: Final = 10_000
META_SNAPSHOT_BYTES: Final = 32 * MIB
# Brokers that wait for news, and calls that wait for the quorum; one has two or three.
META_CALLS_WAITING_MAX: Final = 10_000

# --- staged writes -----------------------------------------------------------------------------

# A write is a query's name and id, an attempt a UUID with room; they are in every staged batch.
WRITE_NAME_LENGTH_MAX: Final = 255
ATTEMPT_NAME_LENGTH_MAX: Final = 64
# Tasks of one epoch: what a decision names is one record, of 2 MB at most.
ATTEMPTS_PER_COMMIT_MAX: Final = 20_000
# What all writes have staged and not committed: in memory, some 500 bytes an attempt and 8 a batch.
STAGED_ATTEMPTS_MAX: Final = 100_000
STAGED_BATCHES_MAX: Final = 2_000_000
# Names whose last epoch is remembered, some 400 bytes each.
WRITES_MAX: Final = 100_000
# An epoch in which nothing was staged for a day has lost its driver: what it staged is dropped.
STAGED_SILENCE_MS_MAX: Final = 24 * 60 * 60 * 1000
# A query that begins again after longer than this is not known any more; one that said that its
# name will not be used again, a batch job, can only repeat its commit.
WRITE_SILENCE_MS_MAX: Final = 90 * 24 * 60 * 60 * 1000
LAST_EPOCH_SILENCE_MS_MAX: Final = 24 * 60 * 60 * 1000

# --- exclusive producers -----------------------------------------------------------------------

# How long a leader may believe what it was told of a topic's claim, from when it asked: a claim
# that changes hands takes a little longer, and a leader with traffic asks twice as often.
CLAIM_VALID_MS: Final = 500
# When all such answers have run out, also where one clock goes a quarter faster than another.
CLAIM_SETTLE_MS: Final = 625
# A producer that does not claim again for so long has lost its topic to the next who asks: long
# enough for a failover of the coordinator, and three attempts.
CLAIM_KEEP_MS: Final = 6_000
# Of as many topics as there may be, and as many again that are gone; some 400 bytes each.
CLAIMS_MAX: Final = 2 * TOPICS_MAX
# A UUID, with room.
CLAIMANT_LENGTH_MAX: Final = 64
# What may wait on a broker until it knows who may write, and for how long.
CLAIM_WAITING_BYTES_MAX: Final = 32 * MIB
CLAIM_WAIT_MS_MAX: Final = 5_000

# --- requests and replies ----------------------------------------------------------------------

# A reply is answered over the connection that the broker has for everything else of the client.
REPLY_BYTES_MAX: Final = 1 * MIB
# Requests of one client that wait: some 500 bytes each.
REQUESTS_WAITING_MAX: Final = 100_000
# Replies that a broker has passed on to one client, whose library has not said that it has them.
REPLIES_UNANSWERED_MAX: Final = 10_000

# --- values as typed columns -------------------------------------------------------------------

# Objects and arrays within one another in a JSON value: well within what Python's own stack holds.
JSON_NESTING_MAX: Final = 200

# --- delayed messages --------------------------------------------------------------------------

# Longer than anything that waits for a message, and near enough that no time overflows.
DELAY_MS_MAX: Final = 10 * 366 * 24 * 60 * 60 * 1000
# The same for the time a message may live: one that lives longer needs no end.
TTL_MS_MAX: Final = DELAY_MS_MAX
# What one coordinator looks after: 32 bytes of index each, on disk, and the messages themselves.
DELAYED_MESSAGES_MAX: Final = 100_000_000
DELAYED_BYTES_MAX: Final = 256 * GIB
# Of one call, so that no call holds up the others for long; and the headers of all of them, which
# are some 200 bytes each in memory until they are written.
DELAYED_PER_CALL_MAX: Final = 10_000
DELAYED_HEADERS_PER_CALL_MAX: Final = 200_000
# Partitions that delayed messages wait for: half a kB of memory each.
DELAY_LANES_MAX: Final = 10_000
# Keys of which the order is kept, for as long as messages of theirs wait: some 180 bytes each.
DELAY_ORDERED_KEYS_MAX: Final = 100_000
# Calls that are recognised when they come again: a client tries for two minutes at most.
DELAY_TOKENS_MAX: Final = 20_000
# Entries of the due index in memory, some 80 bytes each, before they are sorted into a file: that
# takes the event loop some ten milliseconds.
DUE_ENTRIES_IN_MEMORY_MAX: Final = 32_768
# Files of the due index before some are merged: each has a block of 4 kB in memory.
DUE_RUNS_MAX: Final = 48
# Schedules, their messages, and all of them together: they are in memory and in each checkpoint.
SCHEDULES_MAX: Final = 1_000
SCHEDULE_MESSAGE_BYTES_MAX: Final = 64 * KIB
SCHEDULES_BYTES_MAX: Final = 8 * MIB
SCHEDULE_NAME_LENGTH_MAX: Final = 255
CRON_LENGTH_MAX: Final = 256
# --- push --------------------------------------------------------------------------------------

# Streams of one connection, one a partition: as many as a cluster's largest topic has, 1.5 kB each.
PUSH_STREAMS_PER_CONNECTION_MAX: Final = 10_000
# Streams of all connections of a broker together.
PUSH_STREAMS_MAX: Final = 200_000
# What a client may have given a stream and not used: more than a client's own memory should hold.
PUSH_CREDIT_MESSAGES_MAX: Final = 10_000_000
PUSH_CREDIT_BYTES_MAX: Final = 1 * GIB
# Deliveries of a stream without an answer: they hide a round trip's time, and bound what a client
# that stalls has before it.
PUSH_WINDOW_DELIVERIES: Final = 16
# What one delivery has, unless a batch is larger: as one answer to a fetch.
PUSH_DELIVERY_BYTES_MAX: Final = 1 * MIB
# Unsent bytes of a connection, those of files too, above which nothing more is pushed: enough to
# keep a socket busy for a turn, and little before an answer that has to leave as well.
PUSH_UNSENT_BYTES_MAX: Final = 1 * MIB
# Clients and groups that an operator has parked, which stay so when they connect again.
OPERATOR_PARKS_MAX: Final = 1_000
# Turns of one connection's streams in one turn of the loop, some 20 us each; a delivery takes two.
PUSH_LOADS_PER_TURN_MAX: Final = 64
# Readers of all partitions that are woken in one turn of the loop, some 30 to 100 us each: whoever
# publishes meanwhile waits for no more than these.
READERS_WOKEN_PER_TURN_MAX: Final = 8
# Clients that were lost and are still listed, and for how long: for whoever looks into it.
CLIENTS_LOST_MAX: Final = 1_000
CLIENT_LOST_MS_MAX: Final = 10 * 60 * 1000
