"""The same estimators and rules on real vLLM engines and an FSDP2 trainer.

It reads `simulator.rules`, writes `simulator.eventlog` and trains with `algorithms.estimator`, exactly as the
simulated lab does. Executed so far with tiny models on processors; runs on GPUs are planned only (`plan`).
"""
