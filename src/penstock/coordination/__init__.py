"""Pure state machines of the broker: producer sequences and group offsets. No clock, no I/O."""
