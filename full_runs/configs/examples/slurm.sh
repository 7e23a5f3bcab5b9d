#!/bin/bash
# Qwen3-30B-A3B on 4 nodes of 8 GPUs: nodes 0-2 train (24 ranks), node 3 decodes (4 engines of 2 GPUs).
# An example, never executed: no cluster was available. Its parts were, over loopback on one host without GPUs; see
# README.md beside this file.
#SBATCH --job-name=policylag
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --exclusive
#SBATCH --time=24:00:00
set -euo pipefail

CONFIG=qwen3-30b-a3b-32gpu
MODEL=Qwen/Qwen3-30B-A3B
QUESTIONS=${QUESTIONS:-questions.jsonl}
# Both on a file system that all nodes see: engines read weights there, trainers checkpoints.
OUT=${OUT:-$PWD/runs/$CONFIG}
export HF_HOME=${HF_HOME:-$PWD/hub}
TRAINER_NODES=3

# A plan that cannot fit ends the job here, with status 2.
policylag full "$CONFIG" --dry-run

mapfile -t HOSTS < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
ENGINES=${HOSTS[$TRAINER_NODES]}
# vLLM and the controller read it from the environment; it is on no command line and in no file.
VLLM_API_KEY=$(head -c 32 /dev/urandom | base64)
export VLLM_API_KEY

# Four engines on one node, each with two GPUs and a port of its own.
URLS=()
for ENGINE in 0 1 2 3; do
    # Exported here: --export parts its list at commas.
    CUDA_VISIBLE_DEVICES="$((2 * ENGINE)),$((2 * ENGINE + 1))" srun --nodes=1 --ntasks=1 --nodelist="$ENGINES" --overlap \
        --export="ALL,VLLM_SERVER_DEV_MODE=1,VLLM_NO_USAGE_STATS=1" \
        python -m vllm.entrypoints.openai.api_server \
        --model "$MODEL" --host 0.0.0.0 --port $((8000 + ENGINE)) \
        --dtype bfloat16 --tensor-parallel-size 2 --max-model-len 9216 --max-num-seqs 128 \
        --gpu-memory-utilization 0.9 --logprobs-mode processed_logprobs --enable-scale-out \
        --worker-extension-cls full_runs.engine.extension.TakesWeights \
        --generation-config vllm --enable-prefix-caching &
    URLS+=("http://$ENGINES:$((8000 + ENGINE))")
done

# The trainer's other nodes. They start their ranks whenever the controller starts its own, after a failure too.
for NODE in $(seq 1 $((TRAINER_NODES - 1))); do
    srun --nodes=1 --ntasks=1 --nodelist="${HOSTS[$NODE]}" --overlap \
        python -m full_runs.trainer.join --folder "$OUT/trainer" --node "$NODE" &
done

# The controller and the trainer's first node: this one, where SLURM runs the script.
policylag full "$CONFIG" --out "$OUT" --world.path "$QUESTIONS" --rendezvous "${HOSTS[0]}:29500" \
    --engine-urls "${URLS[@]}" --engine-api-key-variable VLLM_API_KEY
