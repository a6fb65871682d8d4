"""Partitions as `cluster status` may find them."""

from __future__ import annotations

from dataclasses import replace

from penstock.client.admin.cluster import LearnerStatus, PartitionStatus

WELL = PartitionStatus(
    topic="orders",
    partition=0,
    leader=1,
    term=3,
    target=(1, 2, 3),
    voters=(1, 2, 3),
    in_sync=(1, 2, 3),
    learners=(),
    is_reached=True,
    commit_offset=9,
)
COPYING = replace(
    WELL,
    is_reached=False,
    learners=(
        LearnerStatus(broker=4, offset=1, bytes_left=2048),
        LearnerStatus(broker=5, offset=None, bytes_left=None),
    ),
)
