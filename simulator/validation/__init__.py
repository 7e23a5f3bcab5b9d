"""Does the simulator meet theory and published runs? What `policylag validate` prints.

row: one comparison and its verdict. steady: means of a correlated series, with an interval. pipelines: the
settings that closed forms speak of. lags, barriers, gates, consequences, delays: theory. applied_compute,
verl_async, trinity, nemo: published runs; wave and trinity_fit: what they are fitted with. checks: all of
them, in order.
"""
