"""Tables of Parquet that grow exactly once: files, snapshots, compaction."""
