"""How messages are handed out, as pure machines: what a push stream sends and when."""
