"""The messages of a partition that a shared group looks at: in which state each is, and what
changes by itself."""
