"""Small models that really sample and learn inside the simulated schedule.

config, worlds, names: what a learning run is (records alone, no torch). parts: what a world and its networks
offer. tasks, models: the worlds and the networks. draws: random numbers by key, so that arms share them.
methods: estimators and what goes on beside their losses. learner, critic, pretraining, score_norms: one
optimizer update.
traffic: what a schedule tells the learner; from the pipeline (bridge), from an exact lag (imposed), or from a
recorded run (replay). student: world, engines and learner together. checkpoint: killed runs go on. run: all
of it.
"""
