"""Messages that are answered, and the answers."""
