"""Grids of runs, as data, and the engine that runs them.

plan: what a study is. every: the studies by name; each is a file here, `quick` the first. hypothesis: what is
claimed beforehand. cells: one run of a grid and its content address. ask: from words to a checked study.
runner, on_ray: many cells, in parallel, resumable. conduct: a study's missing cells. forecast, dry_run: how
long they would take.
"""
