"""Which messages a subscription is for (R-DEL-12): parsed once, asked for every message. Pure."""
