"""The partitions of which this broker has a copy: their folders, what is let in, who waits for
more, who leads. Not copies beside each other: those are `replication`'s."""
