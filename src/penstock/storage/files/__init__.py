"""The only way in which storage touches the world: files, folders, and small durable facts."""
