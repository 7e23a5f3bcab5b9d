"""What is learned: environments that are played through an engine, token ids in and token ids out.

environment: the protocol. play: one rollout, turn by turn. games: the lab's worlds. tiny_model: a model for
them, made here. taught: the same, after supervised steps.
"""
