"""Delayed and scheduled messages (R-DEL-13), pure: what `__delayed` says, and when cron is due."""
