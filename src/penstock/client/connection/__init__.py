"""The connections to brokers, and who of them leads what."""
