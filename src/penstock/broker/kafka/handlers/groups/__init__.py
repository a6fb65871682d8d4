"""What Kafka's requests about groups do: classic, next generation, share."""
