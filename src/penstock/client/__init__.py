"""Producer, consumer and admin, for asyncio and, behind a facade, for blocking scripts."""
