"""The pace of the end-to-end question, the same for every client."""

from __future__ import annotations

from typing import Final

PER_TICK: Final = 20
TICK_S: Final = 0.001
LINGER_MS: Final = 1
# Of whoever waits for a new leader.
PROBE_S: Final = 0.005
