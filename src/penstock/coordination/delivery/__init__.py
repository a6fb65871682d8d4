"""How messages are handed out, as pure machines: leases, dead letters, push streams."""
