"""Staged writes, on the broker that looks after them. Not what a commit means: that is
`coordination.staging`'s."""
