"""What each of two ranks needs to hand out weights: `two_ranks_push.py FOLDER MODEL`, for `test_memory`."""

import json
import sys
from pathlib import Path

import torch
from torch import distributed as dist

from full_runs.trainer.build import built
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.ranks import joined
from full_runs.trainer.send import send_weights
from full_runs.trainer.weights import save_weights
from tests.full_runs.trainer.live_bytes import LiveBytes

FILE_BYTES = 30_000


def main(folder: Path, model: str) -> None:
    ranks = joined(device="cpu", timeout_s=120)
    trainer = built(TrainerConfig(model=model, estimator="grpo_dis"), ranks)
    blocks = [sum(p.numel() for p in block.parameters()) for block in trainer.policy.blocks()]
    everything = sum(p.numel() for p in trainer.policy.parameters())
    seen = {
        "group": 4 * max(*blocks, everything - sum(blocks)),
        "parts": sum(p.to_local().numel() for p in trainer.policy.parameters()),
        "everything": everything,
    }
    for dtype in (torch.float32, torch.bfloat16):
        said = str(dtype).removeprefix("torch.")
        with LiveBytes() as wire:
            sent = send_weights(
                trainer, ranks, workers=[], address="127.0.0.1", timeout_s=30,
                opened=folder / f"lines-{said}", dtype=dtype,
            )  # fmt: skip
        with LiveBytes() as written:
            save_weights(trainer.policy, folder / said, ranks, dtype=dtype, file_bytes=FILE_BYTES)
        seen[said] = {"wire": wire.most, "folder": written.most, "left": wire.now + written.now}
        seen[f"{said}-digests"] = dict(sent.sent)
    (folder / f"seen-{ranks.rank}.json").write_text(json.dumps(seen))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
