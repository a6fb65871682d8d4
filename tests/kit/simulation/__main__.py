"""Runs simulations from a shell.

python -m tests.kit.simulation --seed 123 --trace
python -m tests.kit.simulation raft --seeds 0:2000 --processes 2
"""

from __future__ import annotations

import sys

from tests.kit.simulation.command import main

sys.exit(main(sys.argv[1:]))
