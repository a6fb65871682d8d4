"""One copy of a partition: proposals in, committed batches out. Raft decides, this does."""
