"""Sockets, connections, channels and the clock: bytes to and from peers on one event loop."""
