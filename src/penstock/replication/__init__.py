"""One copy of a partition: proposals in, an ordered durable log and its high watermark out."""
