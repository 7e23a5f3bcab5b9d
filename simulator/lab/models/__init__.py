"""Networks of the lab, and how they are sampled from.

tables: networks of a world so small that all that they can say is enumerated. logits: such tables with
nothing behind them. gpt: a small language model.
"""
