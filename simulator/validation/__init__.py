"""Does the simulator meet theory and published runs? What `policylag validate` prints.

row: one comparison and its verdict. steady: means of a correlated series, with an interval. pipelines: the
settings that closed forms speak of. lags, waits, barriers, gates: theory. applied_compute and its
neighbours: published runs. checks: all of them, in order.
"""
