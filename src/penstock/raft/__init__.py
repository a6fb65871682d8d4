"""Consensus as a pure state machine. Its room: until the cluster comes, a replica has one voter."""
