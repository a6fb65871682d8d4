"""What the cluster consists of: topics, partitions, brokers, kept durably behind one interface."""
