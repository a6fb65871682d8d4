"""Kafka's protocol on the same port: its requests, answered by the parts of this broker."""
