"""What brokers tell each other about partitions, and as which bytes."""
