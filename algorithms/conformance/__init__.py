"""The laws that every estimator must obey, callable on a user's own.

laws: the laws. disturb: the changes to a batch that must change nothing. subject: what can be tried, an
`Estimator` or a plain loss function. hard_batches: hypothesis strategies. check: every law on many hard
batches, with the smallest counterexample. fixture: the same inside a pytest suite.
words: verdicts as text and as JSON.

`hard_batches`, `check` and `fixture` need hypothesis; the others do not.
"""
