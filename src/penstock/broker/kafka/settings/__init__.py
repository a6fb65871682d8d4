"""Settings of topics, groups and brokers by Kafka's names."""
