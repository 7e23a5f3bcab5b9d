"""How do recorded runs get into the tools and the words of other systems?

`words` says what each number is called there, `rows` makes the records of a run, and each of `text`,
`tensorboard` and `trackers` writes them; `place` makes what is written appear whole or not at all.
"""
