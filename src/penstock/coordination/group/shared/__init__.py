"""A shared group: its members, its settings, and where it stands. Not single messages: those are
`coordination.delivery`'s."""
