"""What is wrong with the age and the ratios of the data in a training log that another system wrote?

`reading` turns files into tables under the names of `analysis.systems`, `checks` are pure functions from the
tables to findings, and `examine`, `show` and `ask` put them together.
"""
