"""What else than the loss can be changed when rollouts are stale: the gradient, its step, the optimizer.

gac: the part of a gradient that repeats the previous one. vcpo: a learning rate by effective sample size, and
the baseline of least variance. reset: an optimizer without memory. staleness_rule: the learning rate that a
lag allows. Nothing here owns a model or an optimizer, and nothing keeps state between calls.
"""
