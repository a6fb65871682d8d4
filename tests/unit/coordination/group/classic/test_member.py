"""Members and the protocol they agree on."""

from __future__ import annotations

import json

import pytest

from penstock.coordination.group.classic.member import Member, Members


def member(name: str, protocols: str = "range", instance_id: str | None = None) -> Member:
    return Member(
        member_id=name,
        instance_id=instance_id,
        client_id="client",
        client_host="/10.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocols=tuple((each, each.encode()) for each in protocols.split(",")),
    )


def members(*those: Member) -> Members:
    group = Members()
    for one in those:
        group.put(one)
    return group


@pytest.mark.parametrize(
    ("protocols", "chosen"),
    [
        (["range"], "range"),
        (["range,sticky", "sticky,range", "sticky,range"], "sticky"),
        (["range,sticky", "sticky,range"], "range"),
        (["sticky,range", "range,sticky"], "sticky"),
        (["a,b,c", "b,a,c", "c"], "c"),
    ],
)
def test_most_votes_win_and_the_longest_member_decides(protocols: list[str], chosen: str) -> None:
    group = members(*(member(str(n), each) for n, each in enumerate(protocols)))
    assert group.select_protocol() == chosen


def test_a_protocol_counts_only_if_all_support_it() -> None:
    group = members(member("1", "a,b"), member("2", "b"))
    assert group.supports(["b"], None)
    assert not group.supports(["a", "c"], None)
    assert group.supports(["b"], group["1"])
    assert not group.supports(["a"], group["1"])
    assert group.supports(["a"], group["2"])
    group.remove("2")
    assert group.supports(["a"], None)
    assert group.supports(["anything"], group["1"])


def test_counts_follow_the_members() -> None:
    group = members(member("1", "a,b"), member("2", "b", instance_id="two"))
    assert group.of_instance("two") == group["2"]
    assert group.of_instance("one") is None
    assert group.of_instance(None) is None
    group.put(member("2", "a", instance_id="two"))
    assert [one.member_id for one in group] == ["1", "2"]
    assert group.select_protocol() == "a"
    assert group.record_bytes == sum(one.record_bytes for one in group)
    group.remove("1")
    group.remove("2")
    assert group.of_instance("two") is None
    assert group.record_bytes == len(group) == 0
    assert group.rebalance_timeout_ms() == 0


def test_a_member_knows_what_it_takes_of_the_record() -> None:
    one = member('"\x00ä𝄞', "range,sticky")
    assert one.record_bytes == len(json.dumps(one.to_json()).encode())
    assert one.metadata("sticky") == b"sticky"
    assert one.metadata("other") is None
