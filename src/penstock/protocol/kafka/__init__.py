"""Kafka's wire protocol: message definitions, their codec, headers and error codes."""
