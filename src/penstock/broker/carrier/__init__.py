"""A batch of this broker's own making into any partition of the cluster: led here, or by another
broker."""
