"""Shared groups among the others: one name is one kind, and what is asked of each."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.coordination.group.shared.messages import ShareHeartbeatAnswer, ShareReset
from penstock.coordination.group.shared.settings import WantedSettings
from penstock.model.errors import (
    GroupNotEmpty,
    InconsistentProtocol,
    InvalidGroup,
    InvalidRequest,
    StaleTerm,
    SubscriptionTaken,
    UnknownGroup,
    UnknownMember,
)
from tests.kit.models.group_coordinator import RETENTION_MS, Shell
from tests.kit.models.tickets import Named


class TestKinds:
    def test_what_a_shared_group_is_not_asked(self) -> None:
        shell = Shell()
        shell.share_joined("g")
        assert shell.share("g", -1)
        with pytest.raises(InconsistentProtocol, match="is a shared group"):
            shell.join("g")
        with pytest.raises(UnknownGroup, match="is a shared group"):
            shell.consumer("g")
        with pytest.raises(UnknownGroup, match="is a shared group"):
            shell.commit("g")
        with pytest.raises(UnknownGroup, match="is a shared group"):
            shell.offset("g")
        with pytest.raises(UnknownGroup, match="is a shared group"):
            shell.groups.delete_offsets(Named("delete"), "g", [("orders", 0)])
        with pytest.raises(UnknownGroup, match="not a classic group"):
            shell.groups.describe_classic("g")
        with pytest.raises(UnknownGroup, match="not a consumer group"):
            shell.groups.describe_consumer("g")

    @pytest.mark.parametrize("kind", ["stable", "consumer_joined", "commit"])
    def test_who_has_another_kind_is_not_shared(self, kind: str) -> None:
        shell = Shell()
        getattr(shell, kind)("g")
        for epoch in (0, 1):
            with pytest.raises(UnknownGroup, match="is not a shared group"):
                shell.share("g", epoch)
        with pytest.raises(UnknownGroup):
            shell.groups.shared.describe("g")

    def test_a_name_is_free_when_its_group_is_deleted(self) -> None:
        shell = Shell()
        shell.commit("g")
        shell.does(shell.groups.delete(Named("delete"), ["g"]))
        shell.share_joined("g")
        shell.share("g", -1)
        shell.does(shell.groups.delete(Named("delete"), ["g"]))
        shell.stable("g")

    def test_it_is_listed(self) -> None:
        shell = Shell()
        shell.share_joined("g")
        shell.commit("other")
        [found] = shell.groups.list(kinds=["Shared"])
        assert (found.name, found.kind, found.state, found.protocol_type) == (
            "g",
            "shared",
            "Stable",
            "share",
        )
        assert shell.groups.shared.describe("g").members[0].member_id == "member"


class TestMembers:
    def test_one_that_is_refused_makes_no_group(self) -> None:
        shell = Shell()
        assert isinstance(shell.share("g", topic_names=frozenset()), Exception)
        with pytest.raises(UnknownMember):
            shell.share("g", 1)
        with pytest.raises(InvalidGroup):
            shell.share("")
        assert shell.names() == []
        assert shell.log == []

    def test_topics_that_grow_are_seen(self) -> None:
        shell = Shell()
        joined = shell.share_joined("g")
        shell.groups.on_topics_changed()
        again = shell.share("g", joined.member_epoch)
        assert isinstance(again, ShareHeartbeatAnswer)
        assert again.member_epoch == joined.member_epoch

    def test_a_silent_one_is_removed(self) -> None:
        shell = Shell()
        shell.share_joined("g")
        shell.now_ms += 45_000
        shell.expire()
        assert shell.groups.shared.describe("g").members == ()

    def test_a_group_whose_records_cannot_be_read_keeps_its_places(self) -> None:
        shell = Shell()
        shell.share_joined("g")
        shell.share_write("g", b"place")
        key = json.dumps({"kind": "share-group", "group": "g"}, separators=(",", ":")).encode()
        again = Shell()
        for record in shell.log:
            again.groups.table.apply(record.key, record.value, 0)
        again.groups.table.apply(key, b"{}", 0)
        assert len(again.groups.table.restored(1)) == 1
        assert isinstance(again.share("g", 1), UnknownMember)
        again.share_joined("g")
        assert again.share_read("g", again.share_place()).state == b"place"


class TestPlaces:
    def test_they_are_those_that_were_written(self) -> None:
        shell = Shell()
        shell.share_joined("g")
        shell.share_read("g", shell.share_place("events"))
        shell.share_write("g", b"state")
        for one in (shell, shell.restarted()):
            [found] = one.groups.shared.places("g")
            assert (found.topic, found.partition, found.state) == ("orders", 0, b"state")

    def test_they_go_with_the_group(self) -> None:
        shell = Shell()
        shell.share_joined("g")
        shell.share_write("g", b"state")
        outcomes = shell.does(shell.groups.delete(Named("delete"), ["g"]))["delete"]
        assert isinstance(outcomes, list)
        assert isinstance(outcomes[0], GroupNotEmpty)
        shell.share("g", -1)
        shell.does(shell.groups.delete(Named("delete"), ["g"]))
        for one in (shell, shell.restarted()):
            assert one.names() == []
            assert list(one.groups.table.shares) == []

    def test_they_go_with_their_topic(self) -> None:
        shell = Shell()
        shell.share_joined("g")
        shell.share_write("g", b"state")
        shell.share_write("g", b"state", "events")
        shell.expire()
        shell.topic_ids["orders"] = "another"
        for _ in range(200):  # heartbeats, while the next sweep is awaited
            shell.now_ms += 10_000
            shell.share("g", 1)
            shell.expire()
        for one in (shell, shell.restarted()):
            assert [state.topic for _, state in one.groups.table.shares] == ["events"]

    def test_a_group_that_nobody_uses_goes_when_its_time_is_over(self) -> None:
        shell = Shell()
        shell.share_joined("g")
        shell.share_write("g", b"state")
        shell.share("g", -1)
        shell.expire()
        left_ms = shell.now_ms
        while shell.now_ms < left_ms + RETENTION_MS - 600_000:
            shell.now_ms += 300_000
            shell.expire()
        assert shell.names() == ["g"]
        shell.now_ms += 1_800_000
        shell.expire()
        for one in (shell, shell.restarted()):
            assert one.names() == []
            assert list(one.groups.table.shares) == []

    def test_a_group_without_members_is_let_begin_elsewhere(self) -> None:
        shell = Shell()
        shell.share_joined("g")
        shell.share_write("g", b"first", term=5)
        shell.share_write("g", b"first", "events")
        place = shell.share_place(leader_term=5)
        before = shell.share_read("g", place).incarnation
        resets = [
            ShareReset(
                topic="orders", topic_id=place.topic_id, partition=0, state=b"where it begins"
            ),
            ShareReset(topic="events", topic_id="", partition=0, state=b""),
            ShareReset(topic="events", topic_id="", partition=1, state=b""),
        ]
        with pytest.raises(GroupNotEmpty):
            shell.groups.shared.reset(Named("reset"), "g", "second", resets, shell.now_ms)
        shell.share("g", -1)
        large = replace(resets[0], state=bytes(65_537))
        with pytest.raises(InvalidRequest):
            shell.groups.shared.reset(Named("reset"), "g", "second", [*resets, large], shell.now_ms)
        assert shell.share_read("g", place).incarnation == before, "nothing has changed"
        assert len(shell.groups.shared.places("g")) == 2
        shell.does(shell.groups.shared.reset(Named("reset"), "g", "second", resets, shell.now_ms))
        with pytest.raises(UnknownGroup, match="read it again"):
            shell.groups.shared.write(
                Named("write"), "g", before, place, b"by who knows nothing of it"
            )
        for one in (shell, shell.restarted()):
            assert [state.topic for state in one.groups.shared.places("g")] == ["orders"]
            found = one.share_read("g", place)
            assert (found.state, found.incarnation) == (b"where it begins", "second")
            with pytest.raises(StaleTerm):
                one.share_read("g", one.share_place(leader_term=4))

    def test_a_group_that_is_not_there_begins_where_it_is_told(self) -> None:
        """The first member that comes says the rest."""
        shell = Shell()
        place = shell.share_place()
        resets = [
            ShareReset(topic="orders", topic_id=place.topic_id, partition=0, state=b"elsewhere")
        ]
        shell.does(shell.groups.shared.begin(Named("begin"), "g", "made", resets, shell.now_ms))
        for one in (shell, shell.restarted()):
            assert one.groups.shared.describe("g").state.value == "Empty"
            assert one.share_read("g", place).state == b"elsewhere"
        wanted = WantedSettings(attempts_max=9)
        assert isinstance(shell.share("g", settings=wanted), ShareHeartbeatAnswer)
        found = shell.share_read("g", place)
        assert (found.state, found.settings.attempts_max) == (b"elsewhere", 9)
        with pytest.raises(GroupNotEmpty):
            shell.groups.shared.begin(Named("begin"), "g", "again", resets, shell.now_ms)

    def test_a_group_begins_in_no_topic_that_is_anothers_alone(self) -> None:
        shell = Shell()
        assert isinstance(shell.share("owner", is_point_to_point=True), ShareHeartbeatAnswer)
        place = shell.share_place()
        resets = [ShareReset(topic="orders", topic_id=place.topic_id, partition=0, state=b"s")]
        with pytest.raises(SubscriptionTaken):
            shell.groups.shared.begin(Named("begin"), "g", "made", resets, shell.now_ms)
        assert shell.names() == ["owner"]

    def test_one_that_nobody_comes_to_goes_when_its_time_is_over(self) -> None:
        shell = Shell()
        shell.expire()
        shell.does(shell.groups.shared.begin(Named("begin"), "g", "made", [], shell.now_ms))
        for _ in range(10):
            shell.now_ms += 600_000
            shell.expire()
        assert shell.names() == []
