"""Two ranks under torchrun: the same parameters as the lab's learner, and as one rank."""

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from full_runs.trainer import checkpoint
from full_runs.trainer.build import built
from full_runs.trainer.layout import PADDED
from full_runs.trainer.message import Message, of_lesson, to_bytes
from full_runs.trainer.rows import plan
from simulator.lab.parts import Lesson
from tests.full_runs.trainer import tiny, two_ranks

pytest.importorskip("transformers", reason=tiny.WHY)

UPDATES = 20
BROKEN = 1
"""The update that is refused, of three."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The lab's learners after their lessons, and the folder in which two ranks took the same."""
    folder = tmp_path_factory.mktemp("ranks")
    model = tiny.qwen(folder / "start")
    learners = {}
    for name in two_ranks.NAMES:
        learner = tiny.in_the_lab(two_ranks.config(model, name))
        for update in range(UPDATES if name in ("grpo_dis", "sao") else 3):
            lesson = tiny.lesson(update, rollouts=1 if name == "few" else tiny.ROLLOUTS)
            if name == "masked":
                lesson = tiny.without_actions(lesson, of_the_second_rank(lesson))
            if name == "broken" and update == BROKEN:
                lesson = with_an_infinite_reward(lesson, of_the_second_rank(lesson)[0])
            lesson = tiny.sampled_by(learner.policy, lesson)
            file = folder / f"{name}-lesson-{update:02d}"
            file.write_bytes(to_bytes(Message({}, of_lesson(lesson))))
            learner.update(lesson)
        learners[name] = learner
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(Path(two_ranks.__file__)), str(folder), model]
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, *command, *script],
        env=os.environ | {"PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return folder, model, learners


def of_the_second_rank(lesson):
    """Rollouts that the plan gives to rank 1: all of its micro-batches will be without actions."""
    lengths = ((lesson.prompts >= 0).sum(1) + (lesson.batch.token_ids >= 0).sum(1)).tolist()
    return [row for piece in plan(lengths, 2, cost=PADDED.cost, tokens_at_once=24)[1] for row in piece]


def with_an_infinite_reward(lesson, row):
    rewards = lesson.batch.rewards.clone()
    rewards[row, lesson.batch.action_mask[row]] = math.inf
    return Lesson(prompts=lesson.prompts, batch=dataclasses.replace(lesson.batch, rewards=rewards))


def seen_by(folder, rank):
    return json.loads((folder / f"seen-{rank}.json").read_text())


@pytest.mark.parametrize("name", two_ranks.NAMES)
def test_two_ranks_end_where_the_lab_ends(ended, name):
    """GRPO with DIS in micro-batches, SAO with its critic; then one rollout for both ranks, a rank without
    actions, and an update in which a rollout of one rank has an infinite reward."""
    folder, model, learners = ended
    end = tiny.weights(learners[name].policy)
    assert tiny.apart(tiny.weights(tiny.policy(str(folder / f"{name}-weights"))), end) < 1e-5
    # One rollout's reward may be zero; all others leave their start by far.
    assert tiny.apart(end, tiny.weights(tiny.policy(model))) > 1e-3


@pytest.mark.parametrize("name", two_ranks.NAMES)
def test_ranks_say_the_same_and_both_refuse_what_is_not_finite_on_one(ended, name):
    first, second = (seen_by(ended[0], rank)[name] for rank in (0, 1))
    assert repr(first) == repr(second)
    refused = [number for number, update in enumerate(first) if update["refused"]]
    assert refused == ([BROKEN] if name == "broken" else [])


def test_the_norm_is_of_all_ranks_and_the_parts_are_their_own(ended):
    """Gradients 3 and 4 on two ranks: 5 on both, not 3 and 4."""
    assert [seen_by(ended[0], rank)["norm"] for rank in (0, 1)] == [[5, 3], [5, 4]]


def test_odd_sizes_are_shared_out(ended):
    """61 tokens: 31 and 30 rows of the embeddings."""
    parts = [seen_by(ended[0], rank)["grpo_dis-parts"][0] for rank in (0, 1)]
    assert parts == [[31, 32], [30, 32]]


@pytest.mark.parametrize("name", ["grpo_dis", "sao"])
def test_a_checkpoint_of_two_ranks_goes_on_on_one(ended, alone, name):
    folder, model, learners = ended
    trainer = built(two_ranks.config(model, name), alone)
    checkpoint.load(trainer, folder / f"{name}-checkpoint", owner={"name": name})
    assert trainer.updates == two_ranks.SAVED_AFTER
    for lesson in two_ranks.lessons(folder, name)[two_ranks.SAVED_AFTER :]:
        trainer.update(lesson)
    assert tiny.apart(tiny.weights(trainer.policy), tiny.weights(learners[name].policy)) < 1e-5
    if trainer.critic is not None:
        critic = tiny.weights(learners[name].critic.network)
        assert tiny.apart(tiny.weights(trainer.critic.network), critic) < 1e-5


def test_no_file_of_a_checkpoint_is_anything_but_numbers_and_json(ended):
    files = {file.suffix for file in (ended[0] / "sao-checkpoint").iterdir()}
    assert files == {".safetensors", ".json"}
