"""Runs simulations from a shell.

python -m penstock.testing.simulation --seed 123 --trace
python -m penstock.testing.simulation --seeds 0:2000 --processes 2
"""

from __future__ import annotations

import sys

from penstock.testing.simulation.command import main

sys.exit(main(sys.argv[1:]))
