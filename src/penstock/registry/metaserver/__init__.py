"""The registry of our own: a Raft quorum of meta servers, and a broker as its client (R-REP-5)."""
