"""Models of the world: how long is an answer, how long does a step take, what goes wrong?

lengths: length laws in tokens. deepseek_r1: one that was measured. trace_csv: one from a user's file.
drawn: lengths drawn from a law. decoding: seconds of decode steps, exact between events. service: seconds
of the trainer's. episodes: turns, tools and environments. amounts: how much of what is not a length.
failures.
"""
