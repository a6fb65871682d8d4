"""ShareFetch and ShareAcknowledge (KIP-932): what is read from them, and what they are answered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.delivery.shared.partition import Settled
from penstock.broker.kafka.share_messages import (
    PartitionOutcome,
    acknowledge_response,
    check_fetch,
    fetch_response,
    forgotten,
    member_of,
    settlements,
    wanted,
)
from penstock.coordination.delivery.shared_settings import Lease, Settlement
from penstock.model.errors import InvalidGroup, InvalidRequest, NotLeader, UnknownLease
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages import share_acknowledge as acknowledging
from penstock.protocol.kafka.messages import share_fetch as fetching
from penstock.protocol.kafka.messages.fetch import NodeEndpoint

TOPIC, OTHER = b"a" * 16, b"b" * 16
ACKNOWLEDGE = Settlement.ACKNOWLEDGE
FAIL = Settlement.FAIL
REJECT = Settlement.REJECT
EXTEND = Settlement.EXTEND
RELEASED, REJECTED = "Released by its consumer.", "Rejected by its consumer."
NOT_FOUND = "Not found by its consumer in what it was sent."


def acknowledging_all(*batches: tuple[int, int, list[int]], **how: Any) -> Any:
    """A request that settles messages of one partition."""
    made = [fetching.AcknowledgementBatch(*batch) for batch in batches]
    topic = acknowledging.AcknowledgeTopic(TOPIC, [acknowledging.AcknowledgePartition(3, made)])
    return acknowledging.ShareAcknowledgeRequest("g", "m", 1, topics=[topic], **how)


class TestRequests:
    @pytest.mark.parametrize(
        ("batch", "settled"),
        [
            ((5, 9, [1]), [Settled(5, 9, ACKNOWLEDGE)]),
            ((5, 5, [2]), [Settled(5, 5, FAIL, reason=RELEASED)]),
            (
                (5, 9, [1, 1, 3, 0, 1]),
                [
                    Settled(5, 6, ACKNOWLEDGE),
                    Settled(7, 7, REJECT, reason=REJECTED),
                    Settled(8, 8, FAIL, reason=NOT_FOUND),
                    Settled(9, 9, ACKNOWLEDGE),
                ],
            ),
            ((0, 2**63 - 1, [2]), [Settled(0, 2**63 - 1, FAIL, reason=RELEASED)]),
        ],
    )
    def test_acknowledgements(
        self, batch: tuple[int, int, list[int]], settled: list[Settled]
    ) -> None:
        """R-DEL-3"""
        assert settlements(acknowledging_all(batch)) == {(TOPIC, 3): settled}

    def test_renewals_are_for_requests_that_say_so(self) -> None:
        request = acknowledging_all((1, 2, [4, 1]), is_renew_ack=True)
        assert settlements(request) == {
            (TOPIC, 3): [Settled(1, 1, EXTEND), Settled(2, 2, ACKNOWLEDGE)]
        }
        [refused] = settlements(acknowledging_all((1, 1, [4]))).values()
        assert isinstance(refused, InvalidRequest)

    @pytest.mark.parametrize(
        "batches",
        [
            [(2, 1, [1])],
            [(-1, 1, [1])],
            [(1, 2, [])],
            [(1, 3, [1, 1])],
            [(1, 1, [5])],
            [(1, 1, [-1])],
            [(5, 9, [1]), (9, 10, [1])],
            [(5, 9, [1]), (1, 2, [1])],
        ],
        ids=str,
    )
    def test_senseless_ones(self, batches: list[tuple[int, int, list[int]]]) -> None:
        [refused] = settlements(acknowledging_all(*batches)).values()
        assert isinstance(refused, InvalidRequest)

    def test_a_partition_that_comes_twice(self) -> None:
        request = acknowledging_all((1, 1, [1]))
        request.topics = [*request.topics, *request.topics]
        assert wanted(request) == [(TOPIC, 3)]
        [refused] = settlements(request).values()
        assert isinstance(refused, InvalidRequest)

    def test_partitions(self) -> None:
        partitions = [fetching.FetchPartition(1), fetching.FetchPartition(0)]
        request = fetching.ShareFetchRequest(
            "g",
            "m",
            topics=[
                fetching.FetchTopic(TOPIC, partitions),
                fetching.FetchTopic(OTHER, partitions[:1]),
            ],
            forgotten_topics_data=[fetching.ForgottenTopic(TOPIC, [7, 8])],
        )
        assert wanted(request) == [(TOPIC, 1), (TOPIC, 0), (OTHER, 1)]
        assert list(forgotten(request)) == [(TOPIC, 7), (TOPIC, 8)]
        assert settlements(request) == {}
        many = [fetching.FetchPartition(number) for number in range(10_001)]
        request.topics = [fetching.FetchTopic(TOPIC, many)]
        with pytest.raises(InvalidRequest, match="10001 partitions"):
            wanted(request)

    @pytest.mark.parametrize(
        ("group", "member", "error"),
        [
            (None, "m", InvalidGroup),
            ("", "m", InvalidGroup),
            ("g", None, InvalidRequest),
            ("g", "", InvalidRequest),
            ("g", "m" * 513, InvalidRequest),
        ],
    )
    def test_who_asks(self, group: str | None, member: str | None, error: type[Exception]) -> None:
        with pytest.raises(error):
            member_of(fetching.ShareFetchRequest(group, member))
        assert member_of(fetching.ShareFetchRequest("g", "m")) == ("g", "m")

    @pytest.mark.parametrize(
        "how",
        [
            {"max_wait_ms": -1},
            {"max_records": -1},
            {"share_acquire_mode": 2},
            {"is_renew_ack": True},
            {"is_renew_ack": True, "max_bytes": 0, "max_wait_ms": 1},
        ],
        ids=str,
    )
    def test_senseless_fetches(self, how: dict[str, Any]) -> None:
        with pytest.raises(InvalidRequest):
            check_fetch(fetching.ShareFetchRequest("g", "m", **how))

    def test_sensible_fetches(self) -> None:
        check_fetch(fetching.ShareFetchRequest("g", "m", 1, 500, 1, 1 << 20, 500, 500, 1))
        check_fetch(fetching.ShareFetchRequest("g", "m", 1, max_bytes=0, is_renew_ack=True))

    @given(
        st.lists(
            st.tuples(
                st.integers(-1, 20),
                st.integers(-1, 20),
                st.lists(st.integers(-1, 5), max_size=6),
            ),
            max_size=4,
        )
    )
    def test_what_leaves_rises(self, batches: list[tuple[int, int, list[int]]]) -> None:
        """And says of each offset what the request said of it."""
        for found in settlements(acknowledging_all(*batches)).values():
            if isinstance(found, InvalidRequest):
                continue
            assert not isinstance(found, Exception)
            ends = [offset for one in found for offset in (one.first, one.last)]
            assert ends == sorted(ends)
            said = {
                offset: types[0] if len(types) == 1 else types[offset - first]
                for first, last, types in batches
                for offset in range(first, last + 1)
            }
            settled = {
                offset: one.kind for one in found for offset in range(one.first, one.last + 1)
            }
            assert settled.keys() == said.keys()
            kinds = {0: FAIL, 1: ACKNOWLEDGE, 2: FAIL, 3: REJECT}
            assert all(settled[offset] == kinds[said[offset]] for offset in said)


class TestAnswers:
    def test_what_was_fetched(self) -> None:
        outcomes = {
            (TOPIC, 0): PartitionOutcome(
                leases=[Lease(9, 9, 40_000), Lease(3, 5, 1)],
                records=memoryview(b"batches"),
                settle_error=UnknownLease("Not yours."),
            ),
            (OTHER, 1): PartitionOutcome(error=NotLeader("Elsewhere."), leader=(2, 7)),
            (TOPIC, 2): PartitionOutcome(),
        }
        endpoints = [NodeEndpoint(2, "host", 9092)]
        answer = fetch_response(outcomes, 30_000, endpoints)
        assert (answer.error_code, answer.acquisition_lock_timeout_ms) == (0, 30_000)
        assert answer.node_endpoints == endpoints
        first, second = answer.responses
        assert (first.topic_id, second.topic_id) == (TOPIC, OTHER)
        given, nothing = first.partitions
        assert [
            (one.first_offset, one.last_offset, one.delivery_count)
            for one in given.acquired_records
        ] == [(3, 5, 1), (9, 9, 32_767)]
        assert given.records == memoryview(b"batches")
        assert given.error_code == ErrorCode.NONE
        assert given.acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE
        assert given.acknowledge_error_message == "Not yours."
        assert (nothing.partition_index, bytes(nothing.records)) == (2, b"")  # type: ignore[arg-type]
        [refused] = second.partitions
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refused.current_leader == fetching.LeaderIdAndEpoch(2, 7)

    def test_what_was_acknowledged(self) -> None:
        outcomes = {
            (TOPIC, 0): PartitionOutcome(),
            (TOPIC, 1): PartitionOutcome(settle_error=UnknownLease("Not yours.")),
            (TOPIC, 2): PartitionOutcome(error=NotLeader("Elsewhere."), leader=(2, 7)),
        }
        answer = acknowledge_response(outcomes, 30_000)
        assert answer.acquisition_lock_timeout_ms == 30_000
        [topic] = answer.responses
        assert [one.error_code for one in topic.partitions] == [
            ErrorCode.NONE,
            ErrorCode.INVALID_RECORD_STATE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ]
        assert topic.partitions[2].current_leader == fetching.LeaderIdAndEpoch(2, 7)
