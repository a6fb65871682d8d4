"""From the first bytes of a connection to a handler: which protocol, who is let in, whose call it
is."""
