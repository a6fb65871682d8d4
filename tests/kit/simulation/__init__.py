"""A whole cluster on one thread, from a seed: production's code in a simulated world.

The world is a timeline, a network and a disk for each machine; what runs in it are the replicas,
logs and partitions of real brokers, clients that remember what they were told, and operators who
move, replace and repair. Everything that happens follows from the seed:

    python -m tests.kit.simulation --seed 123 --trace
"""
