"""Which constants make the simulator behave as a recorded run did, and how well does it then foretell?

`observe` reads what engines and trainer did out of an event log, `speed` and `fit` turn it into the
simulator's own settings, `foretell` runs those and sets them beside what was measured.
"""
