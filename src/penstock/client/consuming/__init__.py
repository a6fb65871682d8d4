"""Reading partitions that a consumer has for itself: from what was fetched to what the reader gets,
and how far it came. Not single messages of a shared group: those are `client.sharing`'s."""
