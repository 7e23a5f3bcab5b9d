"""Networks of the lab, and how they are sampled from.

tables: networks of a world so small that all that they can say is enumerated. gpt: a small language model.
"""
