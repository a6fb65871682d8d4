"""The command line: thin commands over the client and the broker."""
