"""The client for code without an event loop. Facades alone: each verb waits for its result."""
