"""The web console and the HTTP API. Its room."""
