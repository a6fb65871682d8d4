"""Groups of consumers, as pure machines: requests and time in, records and answers out."""
