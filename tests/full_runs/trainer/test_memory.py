"""Two ranks hand their weights out, over the wire and into a folder: none needs more memory for it than the
largest group of layers takes that FSDP gathers in a pass.

Counted are all bytes that operations make and that are alive at once, on each rank, gathering included.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from full_runs.engine.digests import digests_of
from tests.full_runs.trainer import tiny, two_ranks_push

pytest.importorskip("transformers", reason=tiny.WHY)

# Embeddings are the largest group, then a block, of which no matrix is half; all sizes are even, as they are
# in published models.
SIZES = {"vocab_size": 600, "intermediate_size": 96}
LARGEST = 600 * 32


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("push")
    model = tiny.qwen(folder / "start", **SIZES)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
            *(str(Path(two_ranks_push.__file__)), str(folder), model),
        ],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return folder, [json.loads((folder / f"seen-{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("way", ["wire", "folder"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_rank_needs_more_than_a_group_of_layers(seen, dtype, way):
    for rank, own in enumerate(seen[1]):
        most, group = own[dtype][way], own["group"]
        print(f"{dtype}, {way}, rank {rank}: {most} bytes at most, the largest group has {group}")
        assert most <= group
        # It did gather: a whole matrix was there.
        assert most >= LARGEST * {"float32": 4, "bfloat16": 2}[dtype]
        assert 4 * own["everything"] > 2 * group
        assert own[dtype]["left"] < 64  # a barrier's number


def test_the_weights_were_spread_and_both_ways_hand_out_the_same(seen):
    folder, (first, second) = seen
    assert first["parts"] + second["parts"] == first["everything"]
    for dtype in ("float32", "bfloat16"):
        assert first[f"{dtype}-digests"] == digests_of(folder / dtype)
        assert second[f"{dtype}-digests"] == {}
    # A file for the embeddings, others of bounded size.
    assert len(list((folder / "float32").glob("*.safetensors"))) > 3
