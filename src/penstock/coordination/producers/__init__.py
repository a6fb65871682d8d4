"""What a partition and its leader remember of producers: their sequences, what was turned away, who
has the topic for itself."""
