"""Which message is due next, of more than fit in memory: sorted runs on disk."""
