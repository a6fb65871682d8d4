"""Publishing: from a message to a batch that is acknowledged."""
