"""What is run: records with units in their names, and ready ones by name.

record: all settings of a run, and what they say to the simulator's rules. text_worlds: of questions in
words. gpus: what only runs on GPUs have. ready: the named ones; ready_gpus: those of GPUs, planned and never
executed so far.
"""
