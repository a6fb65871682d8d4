"""The server: connections in, calls dispatched to handlers, partitions behind them."""
