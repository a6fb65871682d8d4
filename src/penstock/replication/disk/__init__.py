"""What a replica has the disk do, and what waits for it: flushes, deletions, refusals."""
