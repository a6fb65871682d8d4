"""Production's code in a simulated world: on one thread, in virtual time, from a seed.

What every world is made of stands here: a timeline, a network, what befalls it, and a trace. Each
world is a room: `raft` has consensus alone, `clusters` whole brokers with their logs and clients,
`shared` shared groups and their members. Everything that happens in one follows from the seed:

    python -m tests.kit.simulation --seed 123 --trace
"""
