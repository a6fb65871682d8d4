"""`penstock cluster status` as it is shown: brokers, what is wrong with partitions, what to do.

Not the asking: `cli.commands.cluster` does. The invariant: nothing that is wrong is left out, if
only as a number, and everything that somebody has to do something about says what.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from penstock.cli.output import Row, note, show_table
from penstock.cli.quantities import size_text

if TYPE_CHECKING:
    from penstock.client.admin.cluster import BrokerStatus, ClusterStatus, PartitionStatus

# What is shown of a plan or of troubled partitions on a terminal; `--json` has everything.
_SHOWN_MAX: Final = 40


def show_status(found: ClusterStatus, *, everything: bool) -> None:
    # Hosts are of interest where brokers share them, or there are several.
    hosts = ("host",) if len({each.host for each in found.brokers if each.host}) > 1 else ()
    columns = ("broker", "address", *hosts, "state", "leaders", "replicas", "bytes")
    show_table([_broker_row(each) for each in found.brokers], columns)
    partitions = found.partitions
    shown = [each for each in partitions if everything or troubles(found, each)]
    if shown:
        show_some([_partition_row(found, each) for each in shown], limit=not everything)
    moving = sum(not each.is_reached for each in partitions)
    lacking = sum(len(each.in_sync) < len(each.target) for each in partitions)
    leaderless = sum(each.leader is None for each in partitions)
    note(
        f"{partitions_text(len(partitions))}: {leaderless} without a leader, {lacking} with copies "
        f"missing or behind, {moving} not where they should be."
    )
    for sentence in advice(found):
        note(sentence)
    controllers = [each.broker for each in found.brokers if each.is_controller]
    if controllers and not found.is_alone:
        note(f"Broker {controllers[0]} is the controller.")
    if found.is_alone:
        note("This broker is on its own: `penstock up --brokers 3` starts a cluster.")


def _broker_row(broker: BrokerStatus) -> Row:
    states = ["alive" if broker.is_alive else "dead", *["drained"] * broker.is_drained]
    states += ["cannot write"] * bool(broker.disk)
    return {
        "broker": broker.broker,
        "address": broker.address or None,
        "host": broker.host or None,
        "state": ", ".join(states),
        "leaders": broker.leaders,
        "replicas": broker.replicas,
        "bytes": broker.size_bytes,
    }


def _partition_row(found: ClusterStatus, partition: PartitionStatus) -> Row:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "leader": partition.leader,
        "in_sync": list_text(partition.in_sync),
        "target": list_text(partition.target),
        "state": troubles(found, partition) or "well",
    }


def troubles(found: ClusterStatus, partition: PartitionStatus) -> str:
    """What is not as it should be; empty if all is."""
    missing = _missing(found, partition)
    if partition.leader is None:
        lost = "no leader" if found.has_majority(partition) else "no majority"
        return f"{lost}: {missing}" if missing else lost
    copying = [
        f"{learner.broker} ({size_text(learner.bytes_left or 0)} left)"
        for learner in partition.learners
    ]
    moving = f"copied to {', '.join(copying)}" if copying else "moving"
    is_moving = bool(copying) or not partition.is_reached
    return ", ".join(filter(None, (moving if is_moving else "", missing)))


def _missing(found: ClusterStatus, partition: PartitionStatus) -> str:
    """The copies that are not there, and those that are of no use or behind."""
    offline = {copy.broker for copy in partition.offline}
    learning = {learner.broker for learner in partition.learners}
    states = []
    for broker in sorted({*partition.target, *partition.voters}):
        if found.is_dead(broker):
            states.append(f"{broker} dead")
        elif broker in offline:
            states.append(f"{broker} offline")
        elif (
            partition.leader is not None
            and broker in partition.voters
            and broker not in partition.in_sync
            and broker not in learning
        ):
            states.append(f"{broker} behind")
    return ", ".join(states)


def advice(found: ClusterStatus) -> Iterable[str]:
    """What somebody has to do, a sentence each."""
    lost = [each for each in found.partitions if not found.has_majority(each)]
    if lost:
        brokers = sorted(
            {each for one in lost for each in (*one.target, *one.voters) if found.is_dead(each)}
        )
        start = f"start broker {_either(brokers)} with its folder" if brokers else "see below"
        yield (
            f"{partitions_text(len(lost))} can be neither written nor read, most copies being "
            f"away: {start}; nothing else brings back all that was acknowledged."
        )
    for broker in found.brokers:
        if not broker.is_alive and broker.replicas:
            yield (
                f"Broker {broker.broker} is dead and has {_copies(broker.replicas)}: start it "
                f"again, or let others have them with `penstock cluster drain {broker.broker}`."
            )
        if broker.disk:
            yield f"Broker {broker.broker} cannot write: {broker.disk}"
        reasons = [
            copy.reason
            for each in found.partitions
            for copy in each.offline
            if copy.broker == broker.broker
        ]
        if reasons:
            yield f"Broker {broker.broker} has {_copies(len(reasons))} offline: {reasons[0]}"


def _either(brokers: Sequence[int]) -> str:
    *others, last = map(str, brokers)
    return f"{', '.join(others)} or {last}" if others else last


def _copies(count: int) -> str:
    return f"{count:,} cop{'y' if count == 1 else 'ies'}"


def status_json(found: ClusterStatus) -> dict[str, object]:
    return {
        "cluster": found.cluster_id,
        "alone": found.is_alone,
        "brokers": [
            {
                "broker": each.broker,
                "address": each.address,
                "host": each.host,
                "alive": each.is_alive,
                "drained": each.is_drained,
                "controller": each.is_controller,
                "leaders": each.leaders,
                "replicas": each.replicas,
                "bytes": each.size_bytes,
                "disk": each.disk or None,
            }
            for each in found.brokers
        ],
        "advice": list(advice(found)),
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "leader": each.leader,
                "term": each.term,
                "target": list(each.target),
                "replicas": list(each.voters),
                "in_sync": list(each.in_sync),
                "learners": [
                    {
                        "broker": learner.broker,
                        "offset": learner.offset,
                        "bytes_left": learner.bytes_left,
                    }
                    for learner in each.learners
                ],
                "reached": each.is_reached,
                "end": each.commit_offset,
                "offline": [
                    {"broker": copy.broker, "reason": copy.reason} for copy in each.offline
                ],
                "majority": found.has_majority(each),
                "troubles": troubles(found, each),
            }
            for each in found.partitions
        ],
    }


def show_some(rows: Sequence[Row], *, limit: bool = True) -> None:
    some = rows[:_SHOWN_MAX] if limit else rows
    show_table(some)
    if len(some) < len(rows):
        note(f"And {len(rows) - len(some)} more: --json shows all of them.")


def list_text(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def partitions_text(count: int) -> str:
    return f"{count} partition" if count == 1 else f"{count:,} partitions"
