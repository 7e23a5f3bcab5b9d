"""What is wrong with the age and the ratios of the data in a training log that another system wrote?

`reading` turns files into tables under one set of column names, `systems` holds each system's words, `checks`
are pure functions from the tables to findings, and `examine`, `show` and `ask` put them together.
"""
