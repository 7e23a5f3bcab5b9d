"""What is run: records with units in their names, and ready ones by name.

record              all settings of a run, and what they say to the simulator's rules
text_worlds         questions in words
language            the model that answers them
computing           precision and pieces
gpus, hosts, cores  machines
placement           which GPU is whose
ready, ready_gpus   settings by name; those of GPUs were never executed on one so far
"""
