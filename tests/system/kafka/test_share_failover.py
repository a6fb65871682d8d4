"""Share consumers while the leader of their partition is killed (SIGKILL): all that was published
comes, from whichever broker leads then (R-DEL-3, R-REP-2)."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kit.processes.cluster import Cluster
from tests.system.kafka.drivers.driver import PATIENCE_S, until
from tests.system.kafka.share_members import (
    JavaMember,
    LibrdkafkaMember,
    set_for_group,
    settings_of,
)

TOPIC, GROUP = "jobs", "workers"
ROUNDS = 3
EACH = 300


def test_share_consumers_follow_the_leader(tmp_path: Path) -> None:  # noqa: C901 - one story
    with Cluster(tmp_path / "cluster", 3) as cluster:
        bootstrap = ",".join(cluster.addresses.values())
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        for made in admin.create_topics([NewTopic(TOPIC, 1, 3)]).values():
            made.result(PATIENCE_S)
        producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )

        for name, value in (
            ("share.auto.offset.reset", "earliest"),
            # A killed leader's connections end with it, which is an attempt each.
            ("share.delivery.count.limit", "9"),
        ):
            set_for_group(admin, name, value, GROUP)

        def leader(topic: str = TOPIC) -> int:
            found = admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions[0].leader
            assert isinstance(found, int)
            return found

        with (
            JavaMember(bootstrap, GROUP, TOPIC) as java_member,
            LibrdkafkaMember(bootstrap, GROUP, TOPIC) as librdkafka_member,
        ):

            def missing() -> set[int]:
                # A member's list may grow meanwhile.
                got = [*java_member.got, *librdkafka_member.got]
                return set(range(published)) - {int(one.value) for one in got}

            published = 0
            for round_number in range(ROUNDS):
                for number in range(published, published + EACH):
                    producer.produce(TOPIC, b"%d" % number, partition=0)
                    producer.poll(0)
                published += EACH
                if round_number < ROUNDS - 1:
                    # At first after a change a broker may not know of one.
                    while (killed := leader()) not in cluster.ids:
                        time.sleep(0.05)
                    cluster.kill(killed)
                    assert producer.flush(PATIENCE_S) == 0
                    until(lambda: not missing(), f"all of it comes without broker {killed}")
                    cluster.start(killed)
            assert producer.flush(PATIENCE_S) == 0
            until(lambda: not missing(), "all of it comes")

        # What was decided for the group is known to whoever looks after it next.
        while (killed := leader("__offsets")) not in cluster.ids:
            time.sleep(0.05)
        cluster.kill(killed)

        def is_known() -> bool:
            # What is asked on the connection to the dead broker has no answer.
            with contextlib.suppress(KafkaException):
                return settings_of(admin, GROUP)["share.delivery.count.limit"] == "9"
            return False

        until(is_known, "what was decided for the group")
