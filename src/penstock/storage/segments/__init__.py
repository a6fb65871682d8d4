"""One segment of a log: a file of batches, its sparse index, going through it, and what a crash
left of it."""
