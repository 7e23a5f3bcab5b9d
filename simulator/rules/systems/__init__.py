"""The staleness rules of systems in use, each a sentence made of the decisions beside this folder.

shape: what a rule must know of the pipeline. rounds: generate, then train (sync, OpenRLHF, Kimi). gates:
submission runs a bounded number of batches ahead (AReaL, SkyRL, ROLL, tinker, open-instruct, PipelineRL).
ages: what is too old is dropped (prime-rl, miles, TRL, GLM-5, SAO). verl: its four trainers. nemo: NeMo-RL's
three. buffers: who is chosen, and who may restart (slime, torchforge, MiniMax, Laminar).

Versions here are optimizer updates, and a push comes every `Shape.updates_per_push` of them. Most systems
count pushes or batches; each function says which, and where its off-by-one lies.
"""
