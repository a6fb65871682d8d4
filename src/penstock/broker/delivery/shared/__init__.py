"""Shared groups at the leader of a partition. Not who works on what: that is
`coordination.delivery`'s."""
