"""Kafka's record batches, format 2: headers, records, compression. Pure functions on bytes."""
