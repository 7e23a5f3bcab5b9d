"""What is run: records with units in their names, and ready ones by name.

record: all settings of a run, and what they say to the simulator's rules. ready: the named ones.
"""
