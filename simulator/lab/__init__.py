"""Small models that really sample and learn inside the simulated schedule.

draws: random numbers by key, so that arms share them. modular_addition: the world. networks: policy and
critic. snapshots: the weights that engines held, and sampling from them. learner: one optimizer update.
bridge: the world as a workload of the pipeline. imposed: the same learner at an exact lag, no pipeline.
arms: estimators by name. config: what a learning run is.
"""
