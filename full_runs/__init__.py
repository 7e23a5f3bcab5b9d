"""The same estimators and rules on real vLLM engines and an FSDP2 trainer.

Empty so far: nothing in the project depends on it yet. What will stand here reads `simulator.rules`,
writes `simulator.eventlog` and trains with `algorithms.estimator`, exactly as the simulated lab does.
"""
