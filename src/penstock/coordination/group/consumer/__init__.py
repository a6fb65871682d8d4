"""A consumer group of the next generation (KIP-848): the broker assigns, members follow."""
