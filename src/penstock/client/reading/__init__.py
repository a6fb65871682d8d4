"""What readers of both kinds have in common: they begin and end once; messages come from a source
that asks or is pushed to, and wait in one buffer; what is said of them is in a ledger, of which a
teller tells brokers."""
