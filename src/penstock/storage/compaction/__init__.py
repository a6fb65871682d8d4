"""Compaction: the latest record of each key is kept, offsets are not changed."""
