"""Known bugs of the code around consensus: replicas, claims, logs, partitions."""

from __future__ import annotations

from typing import Final

from tests.mutations.mutation import one

_STORAGE_TESTS: Final = ("tests/unit/storage", "tests/property/test_storage.py")
_ELECTION_TESTS: Final = (
    "tests/unit/replication/replica/test_saved_state.py",
    "tests/unit/replication/replica/test_consensus.py",
    "tests/simulation/test_election_crashes.py",
)
_PARTITION_TESTS: Final = (
    "tests/unit/broker/partitions/test_partition.py",
    "tests/unit/coordination",
)

SHELL: Final = (
    one(
        "skipped CRC when a log is found",
        "storage/segments/scan.py",
        "    return check_batch(window.view(position, header.length))",
        "    return header",
        _STORAGE_TESTS,
    ),
    one(
        "whoever waits in a deleted topic is not told",
        "replication/replica/replica.py",
        "        self._waiting.fail_after(-1, reason)\n        if self.is_leader:\n"
        "            self._lose_leadership()\n",
        "        self._waiting = Waiting()\n",
    ),
    one(
        "a topic made anew is led in the terms of the one before",
        "registry/facts.py",
        "        first_term=facts.first_term,\n",
        "        first_term=0,\n",
    ),
    one(
        "sent before the state is saved",
        "replication/replica/consensus.py",
        "            if not self._save_if_due(now_ms):\n",
        "            if not self._save_if_due(now_ms) and self._writing.is_receiving:\n",
    ),
    one(
        "a save that failed taken for one",
        "replication/replica/saved_state.py",
        "        except StorageError as error:\n            self.error = error",
        "        except StorageError:\n            self.error = None",
    ),
    one(
        "a beginning that was expected is believed though another came",
        "replication/replica/saved_state.py",
        "begun[-1].term > state.terms.last_term",
        "False",
        _ELECTION_TESTS,
    ),
    one(
        "a beginning that was expected is kept though the term began elsewhere",
        "replication/replica/saved_state.py",
        "            == terms.begun\n",
        "            is not None\n",
        _ELECTION_TESTS,
    ),
    one(
        "a term is expected again and again",
        "replication/replica/saved_state.py",
        "saved.term > max(self.kept.term, state.terms.last_term)",
        "saved.term > state.terms.last_term",
        _ELECTION_TESTS,
    ),
    one(
        "a vote is given before it is saved",
        "replication/replica/consensus.py",
        "            self._around.flusher.submit(self._saving, self._saved)\n",
        "            self._around.flusher.submit(self._saving, self._saved)\n"
        "            self._sender.send(now_ms)\n",
        _ELECTION_TESTS,
    ),
    one(
        "who waits is told of another's commit",
        "replication/replica/replica.py",
        "            # First, or the commit of another's batch could pass for that of one proposed "
        "here.\n            self._lose_leadership()",
        "            self.is_leader = self.accepts = False",
    ),
    one(
        "proposals taken while a newer term is saved",
        "replication/replica/replica.py",
        "        if self.is_leader and (raft.leading is None or self.term != raft.state.term):\n",
        "        if False:\n",
    ),
    one(
        "fewer copies than the topic asks for",
        "replication/replica/replica.py",
        "        if leading is None or self.min_insync_replicas <= 1:\n",
        "        if True:\n",
    ),
    one(
        "a dead leader's claim is news",
        "replication/peers/replicas.py",
        "if is_fresh and told.commit_offset > participant.commit_offset:",
        "if told.commit_offset > participant.commit_offset:",
    ),
    one(
        "a leader missed for a moment is lost",
        "replication/peers/replicas.py",
        "        if participant.leader is None:\n",
        "        if False:\n",
    ),
    one(
        "numbers of heartbeats begin again with a connection",
        "replication/peers/claims.py",
        "_Audience(self._version, ",
        "_Audience(0, ",
    ),
    one(
        "who missed a heartbeat does not ask",
        "replication/peers/claims.py",
        "            self.needs_whole = True\n",
        "",
    ),
    one(
        "an old claim is not disputed",
        "replication/peers/replicas.py",
        "if told is not None and told.term < self._terms.get(partition, 0):",
        "if False:",
    ),
    one(
        "a failed flush forgotten",
        "storage/segments/jobs.py",
        "        except OSError as error:\n            self.error = error",
        "        except OSError:\n            self.error = None",
        ("tests/unit/storage", "tests/unit/replication"),
    ),
    one(
        "a sealed name before its data",
        "storage/segments/jobs.py",
        "    segment.file.flush()\n    try:",
        "    try:",
        ("tests/unit/storage", "tests/simulation/test_storage_crashes.py"),
    ),
    one(
        "producers not recovered when a log is cut",
        "broker/partitions/partition.py",
        "        self.producers = producers\n",
        "",
        _PARTITION_TESTS,
    ),
    one(
        "followers do not remember producers",
        "broker/partitions/partition.py",
        "            if header.producer_id >= 0:\n"
        "                self.producers.record_copy(header, header.base_offset, "
        "self._clock.now_ms())",
        "            pass",
        _PARTITION_TESTS,
    ),
    one(
        "a repeated batch is appended again",
        "coordination/producers/state.py",
        "        return self._find_repeated(batch, entry)\n",
        "        return None\n",
        _PARTITION_TESTS,
    ),
    one(
        "a batch that failed to be written is remembered",
        "broker/partitions/partition.py",
        "                self.producers.restore(header.producer_id, previous)",
        "                pass",
        _PARTITION_TESTS,
    ),
)
