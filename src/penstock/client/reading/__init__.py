"""What readers of both kinds have in common: messages come from a source that asks or is pushed to,
wait in one buffer, and what is said of them is in a ledger, of which a teller tells brokers."""
