"""What stands in the internal topics reads back as it was, and nothing else is believed."""

from __future__ import annotations

import json

import pytest

from penstock.coordination.staging.records import (
    STAGED_KEY_BYTES_MAX,
    Decision,
    NamedAttempt,
    StagedBatch,
    aborted,
    check_attempt,
    check_write,
    decode_decision,
    decode_staged,
    encode_decision,
    encode_staged,
)
from penstock.model.errors import CorruptLog, InvalidRequest
from penstock.model.limits import ATTEMPT_NAME_LENGTH_MAX, WRITE_NAME_LENGTH_MAX

BATCH = StagedBatch("spark/query", 7, "attempt", 3, "orders", "0" * 32, 2, 500)
DECISION = Decision(
    write="spark/häufig \N{PILE OF POO}",
    epoch=7,
    producer_id=1001,
    attempts=(NamedAttempt("a", 3), NamedAttempt("b", 0)),
    records=500,
    decided_ms=1_700_000_000_000,
    is_last=False,
    is_done=False,
)


@pytest.mark.parametrize("batch", [BATCH, aborted("write", 1, "attempt")])
def test_a_staged_batch_reads_back(batch: StagedBatch) -> None:
    assert decode_staged(encode_staged(batch)) == batch


def test_the_largest_key_fits() -> None:
    widest = "\N{PILE OF POO}"
    names = widest * WRITE_NAME_LENGTH_MAX, widest * ATTEMPT_NAME_LENGTH_MAX
    check_write(names[0], 2**63 - 1)
    check_attempt(names[1])
    batch = StagedBatch(names[0], 2**63 - 1, names[1], 2**32, "t" * 249, "0" * 32, 2**32, 2**31)
    assert len(encode_staged(batch)) <= STAGED_KEY_BYTES_MAX


@pytest.mark.parametrize("decision", [DECISION, DECISION.done()])
def test_a_decision_reads_back(decision: Decision) -> None:
    assert decode_decision(*encode_decision(decision)) == decision


def test_who_reads_the_topic_finds_json() -> None:
    key, value = encode_decision(DECISION)
    assert key.decode() == DECISION.write
    assert json.loads(value)["attempts"] == [["a", 3], ["b", 0]]
    assert DECISION.done().attempts == ()


@pytest.mark.parametrize(
    "key", [b"", b"{}", b"[]", b"\xff", b'{"write": 1}', b"null", b'{"write": "w", "epoch": "x"}']
)
def test_what_is_no_staged_batch_is_refused(key: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode_staged(key)


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b"\xff", b'{"epoch": 1, "attempts": [1]}'])
def test_what_is_no_decision_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode_decision(b"write", value)
    with pytest.raises(CorruptLog):
        decode_decision(b"\xff", encode_decision(DECISION)[1])


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", "a\x00"])
def test_names_that_cannot_be_kept(name: str) -> None:
    with pytest.raises(InvalidRequest, match="named"):
        check_write(name, 0)
    with pytest.raises(InvalidRequest, match="named"):
        check_attempt(name)


def test_epochs_that_cannot_be() -> None:
    with pytest.raises(InvalidRequest, match="0 or more"):
        check_write("write", -1)
