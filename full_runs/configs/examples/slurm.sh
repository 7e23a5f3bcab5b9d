#!/bin/bash
# Qwen3-30B-A3B on 4 nodes of 8 GPUs: nodes 0-2 train (24 ranks), node 3 decodes (4 engines of 2 GPUs).
# An example, never executed: no cluster was available. `policylag full` does not yet reach other hosts; it refuses
# this configuration after the plan, and names what is missing. See README.md beside this file.
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
OUT=${OUT:-runs/$CONFIG}  # on a file system that all nodes see
TRAINER_NODES=3

# A plan that cannot fit ends the job here, with status 2.
policylag full "$CONFIG" --dry-run

mapfile -t HOSTS < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
TRAINERS=$(IFS=,; echo "${HOSTS[*]:0:$TRAINER_NODES}")
ENGINES=${HOSTS[$TRAINER_NODES]}
mkdir -p "$OUT/trainer"

# Four engines on one node, each with two GPUs and a port of its own.
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
done

# 24 ranks over three nodes.
srun --nodes=$TRAINER_NODES --ntasks=$TRAINER_NODES --nodelist="$TRAINERS" --overlap \
    torchrun --nnodes=$TRAINER_NODES --nproc-per-node=8 --rdzv-backend=c10d \
    --rdzv-endpoint="${HOSTS[0]}:29500" --rdzv-id="$SLURM_JOB_ID" \
    -m full_runs.trainer.worker --folder "$OUT/trainer" &

# The controller. Refused so far: it starts trainer and engines on its own host only.
policylag full "$CONFIG" --out "$OUT"
