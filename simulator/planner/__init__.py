"""How should machines be split, how many rollouts be in flight, and how old may data be?

accelerators: public figures of machines, and what share of them is reached. roofline: seconds of a model that
nobody measured. published: those seconds beside measured ones. config: the question. layout: a setting as a
pipeline. measure: one run in numbers. plan: all settings. frontier, regime: which of them matter, and why.
compare: what the group barrier costs. settings: the answer in a system's words.
ask, words, answer: the command.
"""
