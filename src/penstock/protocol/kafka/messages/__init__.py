"""The messages, one module per API: their structures as `protocol.kafka.schema` declares them."""
