"""Grids of runs, as data, and the engine that runs them.

hypothesis: what is claimed beforehand. cells: one run of a grid and its content address. runner: many
cells, in parallel, resumable. quick: the first study.
"""
