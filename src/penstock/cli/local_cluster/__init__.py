"""`penstock up --brokers N`: a cluster on one machine, as children of one process."""
