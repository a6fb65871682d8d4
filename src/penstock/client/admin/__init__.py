"""What people and tools look at and change: topics, groups, clients, the cluster, dead letters,
delays."""
