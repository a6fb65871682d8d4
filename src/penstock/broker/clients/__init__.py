"""Who is connected, and what one connection means to the broker."""
