"""Whole clusters: the replicas, logs and partitions of real brokers, on a disk for each machine.

Clients remember what they were told, and operators move, replace and repair. What befalls them is
in `faults`.
"""
