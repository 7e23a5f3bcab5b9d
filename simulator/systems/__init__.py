"""The systems' rules as configurations: `policylag simulate areal --staleness.max-head-offpolicyness 8`.

base: what a record is. gated, aged: one record a system; its fields are the keyword arguments of the function
in `rules.systems` that it names, in that system's own words. every: all of them.
"""
