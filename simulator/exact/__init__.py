"""Worlds small enough to list: what an estimator's gradient is, not what a sample of it looks like.

world: a policy with every response listed, its true gradient, its older selves. gradient: mean and spread
of an estimator's gradient under one of them. bias: both as tables, by lag and by width of the band.
delay_law: the learning rate at which late data makes a policy unstable.
ask: the words of `policylag bias`.
"""
