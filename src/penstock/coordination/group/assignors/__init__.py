"""Which member gets which partitions: pure choices."""
