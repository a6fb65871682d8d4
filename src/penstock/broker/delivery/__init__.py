"""How messages are handed out: the shells around `coordination.delivery`."""
