"""How old may data be? Pure decisions over counts, the same in a simulated and in a full run.

counts: what a rule may look at. admission: how many rollouts may start now? selection: which finished
groups make the next batch? eviction: which are thrown away? on_sync: when may new weights reach the
engines, and what becomes of what runs? incomplete: and of a group that lost a member? staleness: all of
them, named. systems: those of systems.
"""
