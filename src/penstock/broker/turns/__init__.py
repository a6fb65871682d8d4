"""Long work on the one loop of a broker: in pieces, in turns, in rounds, and the tasks of whoever
waits. Not what is done there: these know nothing of messages."""
