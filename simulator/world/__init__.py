"""Models of the world: how long is an answer, how long does a step take?

lengths: length laws in tokens. deepseek_r1: one that was measured. trace_csv: one from a user's file.
drawn: lengths drawn from a law. service: seconds.
"""
