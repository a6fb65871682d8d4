"""The worlds there are, by name. The invariant: each is run by its seed alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.kit.simulation.clusters.run import run_seed as run_cluster
from tests.kit.simulation.raft.run import run_seed as run_consensus
from tests.kit.simulation.runs import USUAL_WORLD, RunSeed
from tests.kit.simulation.shared.run import run_seed as run_shared_groups

WORLDS: Final[Mapping[str, RunSeed]] = {
    USUAL_WORLD: run_cluster,
    "raft": run_consensus,
    "shared": run_shared_groups,
}
