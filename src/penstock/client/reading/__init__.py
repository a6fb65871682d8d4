"""How messages come to a reader: from a source that asks or is pushed to, through one buffer."""
