"""The groups, on the broker that looks after them. Not what groups decide: that is
`coordination.group`'s."""
