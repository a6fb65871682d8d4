"""What Penstock costs, one file per question. `python -m benchmarks` runs them all.

Figures are comparable within one run on one machine, and as ratios between runs: machines differ
by a factor of two and more.
"""
