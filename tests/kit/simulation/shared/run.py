"""One run: brokers, a coordinator and members of a shared group from a seed, and what was seen.

Not what happens in the world. The invariant: in the end everything that was published is dealt
with, and no promise was broken on the way.
"""

from __future__ import annotations

from collections import Counter

from tests.kit.histories.leases import shown
from tests.kit.simulation.checkers import Violation
from tests.kit.simulation.runs import Outcome, replayable
from tests.kit.simulation.shared.world import live
from tests.kit.simulation.trace import Trace


@replayable("shared")
def run_seed(seed: int, trace: Trace) -> Outcome:
    world = live(seed, trace=trace)
    history = world.history
    if violations := history.violations():
        raise Violation(shown(violations))
    return Outcome(
        seed=seed,
        simulated_ms=world.timeline.now_ms,
        worth=Counter(
            {
                "messages published": world.log.next_offset,
                "leases": len(history.leases),
                "settlements": len(history.settlements),
                "dead letters": len(history.dead),
            }
        ),
        counts=world.counts,
        healed_ms={"everything dealt with": world.dealt_with_ms - world.mended_ms},
        digest=trace.digest,
    )
