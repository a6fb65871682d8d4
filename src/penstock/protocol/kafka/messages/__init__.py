"""The messages, one module per API: their structures as `protocol.kafka.schema` declares them. One
that several APIs have is declared with the first of these."""
