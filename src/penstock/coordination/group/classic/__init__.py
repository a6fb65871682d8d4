"""A classic consumer group: members agree among themselves who reads what."""
