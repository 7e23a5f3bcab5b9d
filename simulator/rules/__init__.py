"""How old may data be? Pure decisions over counts, the same in a simulated and in a full run.

counts: what a rule may look at. admission: how many rollouts may start now? eviction: which finished
ones are thrown away? on_sync: when may new weights reach the engines? staleness: the three, named.
"""
