"""A broker among the others: all of its copies, the links to the peers, who leads what."""
