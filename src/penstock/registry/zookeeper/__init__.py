"""The registry on ZooKeeper (R-REP-4)."""
