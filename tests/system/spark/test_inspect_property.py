"""Generated topics under inspection: clean ones give no warning, planted faults are all found.

The batches are real ones, in files of a data folder (no honest broker would take the faults), read
by the source with `path`. Many topics share one inspection: Spark's time goes into its jobs, not
into these few messages.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock.records import Codec
from penstock.spark.inspection import Finding, InspectOptions, Kind, Severity, inspect
from tests.kit.spark import inspection_topics as topics
from tests.kit.spark.inspection_topics import Shape, Topic
from tests.kit.spark.session import shared_session

# An example is two dozen topics and takes seconds: they are not made smaller when one fails.
SLOW = settings(
    max_examples=2,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)

SHAPES = st.builds(
    Shape,
    seed=st.integers(0, 2**32),
    partitions=st.integers(1, 4),
    producers=st.lists(st.booleans(), min_size=1, max_size=4).map(tuple),
    keys=st.sampled_from([0, 1, 2, 3, 10, 60]),
    unkeyed_share=st.sampled_from([0.0, 0.3]),
    batches=st.integers(1, 60),
    batch_records_max=st.sampled_from([1, 4, 12]),
    values=st.sampled_from(["unique", "few", "empty", "null"]),
    headers=st.booleans(),
    codecs=st.lists(st.sampled_from(list(Codec)), min_size=1, max_size=3).map(tuple),
    append_time=st.booleans(),
    marks=st.sampled_from([0, 2, 5]),
)
# Room for every fault: two producers with ids, enough batches, keys, and something in the values.
ROOMY_SHAPES = st.builds(
    Shape,
    seed=st.integers(0, 2**32),
    partitions=st.integers(1, 3),
    producers=st.lists(st.booleans(), max_size=2).map(lambda more: (True, True, *more)),
    keys=st.integers(5, 40),
    unkeyed_share=st.sampled_from([0.0, 0.3]),
    batches=st.integers(40, 70),
    batch_records_max=st.integers(3, 8),
    headers=st.booleans(),
    codecs=st.just((Codec.NONE, Codec.ZSTD)),
    append_time=st.booleans(),
    marks=st.sampled_from([0, 2, 5]),
)


Plant = Callable[[Topic], None]
# What is planted, the mark its batches bear, and the finding it must give.
FAULTS: dict[str, tuple[Plant, Kind, Severity]] = {
    "repeated": (topics.plant_repeated_batch, Kind.DUPLICATES, Severity.CRITICAL),
    "copied": (topics.plant_copied_batch, Kind.DUPLICATES, Severity.WARNING),
    "hole": (topics.plant_hole, Kind.HOLE, Severity.CRITICAL),
    "swapped": (topics.plant_swapped_batches, Kind.ORDER, Severity.CRITICAL),
    "old": (topics.plant_old_message, Kind.ORDER, Severity.WARNING),
    "hot": (topics.plant_hot_key, Kind.HOT_KEY, Severity.WARNING),
    "slow": (topics.plant_slow_producer, Kind.SLOW_PRODUCER, Severity.WARNING),
}
# Each alone, and all together; the hot key first, since it doubles the topic.
ALL_FAULTS = ("hot", "slow", "copied", "repeated", "swapped", "old", "hole")
PLANS: list[tuple[str, ...]] = [*((name,) for name in FAULTS), ALL_FAULTS, ALL_FAULTS[1:]]


@SLOW
@given(
    st.lists(SHAPES, min_size=14, max_size=14),
    st.lists(ROOMY_SHAPES, min_size=len(PLANS), max_size=len(PLANS)),
)
def test_each_planted_fault_is_found_and_nothing_else(
    shapes: list[Shape], roomy: list[Shape]
) -> None:
    """R-SPK-3: duplicates, a hole, swapped order, a hot key, a slow producer; where they are. A
    clean topic gives no warning, whatever producers, keys, partitions, batches, codecs and control
    records it has."""
    clean = {f"clean-{number}": topics.clean_topic(shape) for number, shape in enumerate(shapes)}
    planted = {}
    for number, (plan, shape) in enumerate(zip(PLANS, roomy, strict=True)):
        topic = topics.clean_topic(shape)
        for name in plan:
            FAULTS[name][0](topic)
        planted[f"planted-{number}"] = topic
    for topic in (*clean.values(), *planted.values()):
        topics.plant_control_records(topic)
    found = inspected({**clean, **planted})
    for name, topic in clean.items():
        bad = [finding for finding in found[name] if finding.severity is not Severity.NOTE]
        assert not bad, (topic.shape, bad)
    for number, plan in enumerate(PLANS):
        name = f"planted-{number}"
        check_found(plan, planted[name], found[name])


def check_found(plan: tuple[str, ...], topic: Topic, findings: list[Finding]) -> None:
    bad = [finding for finding in findings if finding.severity is not Severity.NOTE]
    context = (plan, topic.shape, bad)
    assert {finding.kind for finding in bad} == {FAULTS[name][1] for name in plan}, context
    for name in plan:
        _, kind, severity = FAULTS[name]
        (finding,) = [each for each in bad if (each.kind, each.severity) == (kind, severity)]
        places = {(place.partition, place.offset) for place in finding.examples}
        right = topic.places(name)
        if name == "old":  # swapped batches may be as old as that too
            right |= topic.places("swapped")
        assert places, context
        assert places <= right, context
        if name == "copied":
            assert places == right, context
            assert finding.count == len(right), context
        if name == "hole":
            (lost,) = topic.of("hole")
            assert places == {(lost.partition, lost.offset)}, context
            assert finding.count == len(lost.records), context


def inspected(generated: dict[str, Topic]) -> dict[str, list[Finding]]:
    with tempfile.TemporaryDirectory(prefix="penstock-inspect-") as folder:
        for name, topic in generated.items():
            topics.write_folder(topic, Path(folder), name)
        options = InspectOptions(topics=tuple(generated), path=folder)
        inspection = inspect(shared_session(), options)
    messages = {row.topic: row.messages for row in inspection.tables.topics}
    for name, topic in generated.items():
        kept = [each for each in topic.batches if not (each.is_lost or each.is_control)]
        assert messages[name] == sum(len(batch.records) for batch in kept)
    return {
        name: [finding for finding in inspection.findings if finding.topic == name]
        for name in generated
    }
