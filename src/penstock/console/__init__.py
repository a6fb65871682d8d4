"""The web console and the HTTP API. Its room: the code comes with a later change."""
