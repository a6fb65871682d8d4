"""What is read by whom: ranges, positions, limits, losses. Pure, on plain data."""
