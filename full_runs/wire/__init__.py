"""Weights on their way from a trainer to engines, tensor by tensor, without a file between them.

outline   what is announced of each tensor before anything is sent
group     a process group of one sender and one engine's workers, apart from all others
lines     over Gloo, on processors: what an engine is told, and what the trainer holds
nccl      the same over NCCL, on GPUs, to vLLM's own receiver
send      one tensor after another to all lines; one that breaks does not hold up the others
"""
