"""The estimators of `algorithms`, on a transformers model that FSDP2 shards over ranks.

layout, log_probs, model   what a causal language model says of a batch; a critic of its family
ranks, shard, rows         who computes which rollouts, and how weights are laid out over ranks
update, value              one optimizer update, the same four lines as the lab's
weights, checkpoint        what leaves a trainer: weights for engines, state for another process
config, message            what a trainer is told
worker, client             the process on each rank, and what a controller holds of them all
processes, bell            how ranks start and end on a host, and how one is woken
"""
