"""Pure machines of delivery: leases of shared groups, and what becomes of messages that fail."""
