"""What brokers push to clients: streams, and where their messages come from."""
