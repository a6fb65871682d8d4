"""What operators decide for single groups: what is taken, what is refused, what a group makes of it
(R-DEL-3)."""

from __future__ import annotations

import pytest

from penstock.coordination.group.consumer.messages import (
    ConsumerGroupConfig,
    ConsumerHeartbeatAnswer,
)
from penstock.coordination.group.effects import Effects
from penstock.coordination.group.settings import GroupSettingChange, GroupSettings
from penstock.coordination.group.shared.messages import ShareGroupConfig, ShareHeartbeatAnswer
from penstock.coordination.group.shared.settings import WantedSettings
from penstock.model.errors import CorruptLog, InconsistentSubscription, InvalidConfig
from tests.kit.models.group_coordinator import Shell
from tests.kit.models.tickets import Named


def configure(shell: Shell, group: str, *removed: str, **settings: object) -> None:
    named = {name.replace("_", "."): str(value) for name, value in settings.items()}
    change = GroupSettingChange(settings=named, removed=removed)
    shell.does(Effects(records=shell.groups.table.configure(group, change)))


def refused(name: str, text: str, **more: str) -> str:
    settings = GroupSettings(ConsumerGroupConfig(), ShareGroupConfig())
    with pytest.raises(InvalidConfig) as error:
        settings.changed("g", GroupSettingChange(settings={name: text, **more}))
    assert settings.groups() == []
    return error.value.message


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "text", "why"),
        [
            ("consumer.session.timeout.ms", "44999", "or equal to group.consumer.min.session.time"),
            ("consumer.session.timeout.ms", "60001", "or equal to group.consumer.max.session.time"),
            ("consumer.heartbeat.interval.ms", "4999", "which is 5000"),
            ("share.heartbeat.interval.ms", "15001", "which is 15000"),
            ("share.record.lock.duration.ms", "14999", "group.share.min.record.lock.duration.ms"),
            ("share.delivery.count.limit", "1", "group.share.min.delivery.count.limit, which is 2"),
            ("share.delivery.count.limit", "11", "group.share.max.delivery.count.limit"),
            ("share.partition.max.record.locks", "99", "group.share.min.partition.max.record"),
            ("share.delivery.count.limit", "many", "must be a whole number"),
            ("share.auto.offset.reset", "none", "by_duration:<PnDTnHnMn.nS>"),
            ("share.auto.offset.reset", "by_duration:-PT1H", "by_duration:<PnDTnHnMn.nS>"),
            ("share.auto.offset.reset", "by_duration:P999999999999D", "by_duration:<PnDTnHnMn.nS>"),
            ("share.isolation.level", "serializable", "read_committed or read_uncommitted"),
            ("share.renew.acknowledge.enable", "false", "members may always renew"),
            ("errors.deadletterqueue.topic.name", "dlq.g", "can only be 'dead-letters.g'"),
            ("errors.deadletterqueue.copy.record.enable", "false", "has the message in it"),
            ("streams.session.timeout.ms", "45000", "streams groups, which are not served here"),
            ("share.session.timeout", "1", "Unknown group config name: share.session.timeout."),
            ("share.session.timeout", "1", "Did you mean share.session.timeout.ms?"),
        ],
    )
    def test_by_kafkas_bounds_and_in_its_words(self, name: str, text: str, why: str) -> None:
        assert why in refused(name, text)

    def test_a_session_no_longer_than_a_heartbeat(self) -> None:
        settings = GroupSettings(
            ConsumerGroupConfig(session_timeout_ms=4_000, heartbeat_interval_ms=1_000),
            ShareGroupConfig(),
        )
        change = GroupSettingChange(settings={"consumer.heartbeat.interval.ms": "5000"})
        with pytest.raises(InvalidConfig, match=r"timeout\.ms must be greater than consumer\.hear"):
            settings.changed("g", change)

    def test_what_is_taken_back_must_be_known_too(self) -> None:
        shell = Shell()
        with pytest.raises(InvalidConfig, match="Unknown group config name"):
            configure(shell, "g", "nonsense")


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("share.isolation.level", "read_committed", "read_committed"),
        ("share.isolation.level", "read_uncommitted", "read_uncommitted"),
        ("share.renew.acknowledge.enable", "TRUE", "true"),
        ("errors.deadletterqueue.topic.name", "dead-letters.g", "dead-letters.g"),
        ("errors.deadletterqueue.copy.record.enable", "true", "true"),
    ],
)
def test_what_holds_anyway_can_be_asked_for(name: str, text: str, kept: str) -> None:
    """KIP-932, KIP-1191, KIP-1222: or tools that set it would fail."""
    settings = GroupSettings(ConsumerGroupConfig(), ShareGroupConfig())
    changed = settings.changed("g", GroupSettingChange(settings={name: text}))
    assert changed == {name: kept}
    settings.put("g", changed)
    assert settings.of("g") == {name: kept}


def test_the_brokers_own_default_is_within_the_bounds() -> None:
    """Whoever gave all groups a session of six seconds may give one that as well."""
    settings = GroupSettings(ConsumerGroupConfig(session_timeout_ms=6_000), ShareGroupConfig())
    change = GroupSettingChange(settings={"consumer.session.timeout.ms": "6000"})
    assert settings.changed("g", change) == {"consumer.session.timeout.ms": "6000"}


class TestKept:
    def test_until_it_is_taken_back_and_longer_than_the_group(self) -> None:
        shell = Shell()
        configure(shell, "g", share_delivery_count_limit=3, share_auto_offset_reset=" latest ")
        shell.share_joined("g")
        shell.share("g", -1)
        shell.does(shell.groups.delete(Named("delete"), ["g"]))
        for one in (shell, shell.restarted()):
            assert one.names() == []
            assert one.groups.table.settings.of("g") == {
                "share.delivery.count.limit": "3",
                "share.auto.offset.reset": "latest",
            }
        configure(shell, "g", "share.delivery.count.limit", "share.session.timeout.ms")
        replaced = GroupSettingChange(settings={}, replaces=True)
        assert shell.restarted().groups.table.settings.of("g") == {
            "share.auto.offset.reset": "latest"
        }
        shell.does(Effects(records=shell.groups.table.configure("g", replaced)))
        for one in (shell, shell.restarted()):
            assert one.groups.table.settings.groups() == []

    def test_in_a_snapshot(self) -> None:
        shell = Shell()
        configure(shell, "g", share_delivery_count_limit=3)
        other = Shell()
        for key, value in shell.groups.table.checkpoint().records():
            other.groups.table.apply(key, value, 0)
        assert other.groups.table.settings.of("g") == {"share.delivery.count.limit": "3"}

    def test_what_another_version_or_another_default_let_in(self) -> None:
        settings = GroupSettings(ConsumerGroupConfig(), ShareGroupConfig())
        settings.apply("g", b'{"share.session.timeout.ms": "6000", "to.come": "yes"}')
        assert settings.of("g") == {"share.session.timeout.ms": "6000"}
        for nonsense in (b"[]", b"{", b'{"share.session.timeout.ms": "soon"}'):
            with pytest.raises(CorruptLog, match="settings of group 'g'"):
                settings.apply("g", nonsense)

    def test_a_beginning_longer_ago_than_milliseconds_can_say(self) -> None:
        """It was taken once, and leaders of partitions could not be told it: the group begins where
        there is nothing before."""
        settings = GroupSettings(ConsumerGroupConfig(), ShareGroupConfig())
        settings.apply("g", b'{"share.auto.offset.reset": "by_duration:P999999999999D"}')
        config = settings.share_config("g")
        assert (config.start_ago_ms, config.decided) == (None, {"start_latest": False})


class TestInEffect:
    def test_on_a_consumer_group_that_runs(self) -> None:
        shell = Shell()
        shell.consumer_joined("g")
        configure(
            shell, "g", consumer_heartbeat_interval_ms=15_000, consumer_session_timeout_ms=60_000
        )
        for one in (shell, shell.restarted()):
            answer = one.consumer("g", 1)
            assert isinstance(answer, ConsumerHeartbeatAnswer)
            assert answer.heartbeat_interval_ms == 15_000
            one.now_ms += 59_999
            one.expire()
            assert isinstance(one.consumer("g", 1), ConsumerHeartbeatAnswer)
            one.now_ms += 60_000
            one.expire()
            assert isinstance(one.consumer("g", 1), Exception)

    def test_on_a_share_group_that_runs(self) -> None:
        shell = Shell()
        shell.share_joined("g")
        configure(shell, "g", share_heartbeat_interval_ms=15_000, share_session_timeout_ms=60_000)
        for one in (shell, shell.restarted()):
            answer = one.share("g", 1)
            assert isinstance(answer, ShareHeartbeatAnswer)
            assert answer.heartbeat_interval_ms == 15_000
            one.now_ms += 59_999
            one.expire()
            assert isinstance(one.share("g", 1), ShareHeartbeatAnswer)
            one.now_ms += 60_000
            one.expire()
            assert isinstance(one.share("g", 1), Exception)

    def test_on_what_its_partitions_leaders_are_told(self) -> None:
        shell = Shell()
        shell.share_joined("g")
        place = shell.share_place()
        before = shell.share_read("g", place)
        assert (before.settings.lease_ms, before.settings.attempts_max) == (30_000, 5)
        configure(
            shell,
            "g",
            share_record_lock_duration_ms=20_000,
            share_delivery_count_limit=2,
            share_auto_offset_reset="by_duration:PT1M",
        )
        write = shell.groups.shared.write(Named("write"), "g", before.incarnation, place, b"state")
        told = shell.does(write)["write"]
        for one in (shell, shell.restarted()):
            found = one.share_read("g", place)
            assert found.settings == told
            assert (found.settings.lease_ms, found.settings.attempts_max) == (20_000, 2)
            assert found.start_ago_ms == 60_000
        for reset, is_latest in (("latest", True), ("earliest", False)):
            configure(shell, "g", share_auto_offset_reset=reset)
            found = shell.share_read("g", place)
            assert (found.settings.start_latest, found.start_ago_ms) == (is_latest, None)

    def test_a_member_need_not_say_what_an_operator_has_decided(self) -> None:
        shell = Shell()
        wanted = WantedSettings(lease_ms=40_000, attempts_max=7)
        assert isinstance(shell.share("g", settings=wanted), ShareHeartbeatAnswer)
        configure(shell, "g", share_record_lock_duration_ms=20_000)
        assert isinstance(shell.share("g", settings=wanted), ShareHeartbeatAnswer)
        assert shell.groups.shared.describe("g").settings.lease_ms == 20_000
        other = shell.share("g", settings=WantedSettings(attempts_max=6))
        assert isinstance(other, InconsistentSubscription)
        configure(shell, "g", "share.record.lock.duration.ms")
        assert shell.groups.shared.describe("g").settings.lease_ms == 40_000
