"""From a call of either protocol to its handler: who is let in, whose call it is."""
