"""Topics as users ask for them, and the copies here that follow; what may be written to a topic,
whichever broker leads it."""
