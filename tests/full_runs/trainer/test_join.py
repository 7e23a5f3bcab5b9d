"""A trainer over two nodes: what one node learns, what happens when a node is lost, and when it ends.

Both nodes are this host, over loopback, with a rank each. No second host was available.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from full_runs.trainer.client import TrainerClient
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.join import NobodyCameError, join
from full_runs.trainer.launch import ASSEMBLY, OVER, Assembly, dismiss, environment, torchrun
from full_runs.trainer.processes import TrainerError
from full_runs.trainer.worker import pid_file
from tests.full_runs.trainer import tiny

ONE = Assembly(id="a", ranks_a_node=2)
FAR = Assembly(id="a", nodes=3, ranks_a_node=8, rendezvous="node-0:29500", gpus=tuple(range(8)))
ROOT = str(Path(__file__).parents[3])
ON_CPU, ON_GPUS = (TrainerConfig(model="m", estimator="grpo", device=device) for device in ("cpu", "cuda"))


def said(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_one_node_meets_nobody() -> None:
    words = torchrun(ONE, 0, Path("x"))
    assert "--standalone" in words
    assert said(words, "--nproc-per-node") == "2"
    assert not [word for word in words if word.startswith(("--rdzv", "--nnodes"))]


def test_all_nodes_name_the_same_meeting_and_their_own_number() -> None:
    nodes = [torchrun(FAR, node, Path("x")) for node in range(3)]
    assert [said(words, "--node-rank") for words in nodes] == ["0", "1", "2"]
    for flag, value in (("--nnodes", "3"), ("--rdzv-endpoint", "node-0:29500"), ("--rdzv-id", "a")):
        assert [said(words, flag) for words in nodes] == [value] * 3
    # Rank 0 alone hears the controller, and only on its own host is there a pipe from it.
    assert ["--watched" in words for words in nodes] == [True, False, False]


def test_ranks_see_their_gpus_and_talk_over_loopback_only_on_one_host() -> None:
    gpus = environment(FAR, ON_GPUS, {"CUDA_VISIBLE_DEVICES": "7,6,5,4,3,2,1,0"})
    assert gpus["CUDA_VISIBLE_DEVICES"] == "7,6,5,4,3,2,1,0"
    assert "GLOO_SOCKET_IFNAME" not in gpus
    assert "OMP_NUM_THREADS" not in gpus
    near = environment(ONE, ON_CPU, {"PYTHONPATH": "/else", "OMP_NUM_THREADS": "3"})
    assert near["PYTHONPATH"].split(os.pathsep)[1] == "/else"
    assert near["OMP_NUM_THREADS"] == "3"
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    assert near.get("GLOO_SOCKET_IFNAME") == (loopback[0] if loopback else None)
    with pytest.raises(ValueError, match="GPU 7 of it is wanted"):
        environment(FAR, ON_GPUS, {"CUDA_VISIBLE_DEVICES": "0,1"})


def test_a_node_that_nobody_wants_gives_up(tmp_path: Path) -> None:
    with pytest.raises(NobodyCameError, match="no controller started a trainer"):
        join(tmp_path / "later", 1, patience_s=0.0)
    (tmp_path / ASSEMBLY).write_text("{half a")
    with pytest.raises(NobodyCameError):
        join(tmp_path, 1, patience_s=0.0)


@pytest.mark.parametrize("node", [-1, 0, 3])
def test_a_node_that_the_trainer_does_not_have_is_refused(tmp_path: Path, node: int) -> None:
    (tmp_path / ASSEMBLY).write_text(FAR.model_dump_json())
    with pytest.raises(ValueError, match=rf"node is {node}, .* has nodes 1 to 2"):
        join(tmp_path, node, patience_s=0.0)


def test_an_end_that_was_there_before_is_another_runs(tmp_path: Path) -> None:
    dismiss(tmp_path, "earlier")
    with pytest.raises(NobodyCameError):
        join(tmp_path, 1, patience_s=0.0)
    assert (tmp_path / OVER).read_text() == "earlier"
    dismiss(tmp_path / "none", "x")
    assert not (tmp_path / "none").exists()


def test_two_nodes_end_where_the_lab_ends_survive_a_lost_rank_and_are_dismissed(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason=tiny.WHY)
    config = TrainerConfig(
        model=tiny.qwen(tmp_path / "model"), estimator="sao_no_warm_up", learning_rate=1e-3
    )
    learner = tiny.in_the_lab(config)
    lessons = [tiny.sampled_by(learner.policy, tiny.lesson(update)) for update in range(3)]
    for lesson in lessons:
        learner.update(lesson)
    end, folder = tiny.weights(learner.policy), tmp_path / "trainer"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = f"127.0.0.1:{free.getsockname()[1]}"
    words = ["-m", "full_runs.trainer.join", "--folder", str(folder), "--node", "1", "--patience-s", "120"]
    with (tmp_path / "joined.txt").open("wb") as log:
        joined = subprocess.Popen(
            [sys.executable, *words], env=os.environ | {"PYTHONPATH": ROOT}, stdout=log, stderr=log
        )
    try:
        for start in ("lost", "whole"):
            with TrainerClient(folder).start(config, 2, nodes=2, rendezvous=meeting) as client:
                seen = [client.train(lesson.batch, lesson.prompts) for lesson in lessons]
                assert len(client.process_ids()) == 1  # of two: the other is on the other node
                client.save_weights(tmp_path / start)
                assert tiny.apart(tiny.weights(tiny.policy(str(tmp_path / start))), end) < 1e-5
                assert all(update["refused"] == 0 for update in seen)
                if start == "lost":
                    client.save_checkpoint(tmp_path / "kept")
                    os.kill(int(pid_file(folder, 1).read_text()), signal.SIGKILL)
                    with pytest.raises(TrainerError, match="the trainer ended with status"):
                        client.train(lessons[0].batch, lessons[0].prompts)
                else:
                    assert client.resume(tmp_path / "kept") == 3
        assert joined.poll() is None  # it would come again
        dismiss(folder, "now")
        assert joined.wait(60) == 0, (tmp_path / "joined.txt").read_text()
    finally:
        joined.kill()
        joined.wait()
    assert (tmp_path / "joined.txt").read_text().count("1 ranks meet at") == 2


def test_a_node_that_is_asked_to_end_ends_its_ranks(tmp_path: Path) -> None:
    """Nobody is at the meeting; a launcher that ends its job leaves nothing behind."""
    folder = tmp_path / "trainer"
    folder.mkdir()
    (folder / "config.json").write_text(ON_CPU.model_dump_json())
    alone = Assembly(id="b", nodes=2, ranks_a_node=1, rendezvous="127.0.0.1:9")
    (folder / ASSEMBLY).write_text(alone.model_dump_json())
    words = ["-m", "full_runs.trainer.join", "--folder", str(folder), "--node", "1"]
    variables = os.environ | {"PYTHONPATH": ROOT}
    with subprocess.Popen(
        [sys.executable, *words], env=variables, stderr=subprocess.PIPE, text=True
    ) as joined:
        assert joined.stderr is not None
        assert "1 ranks meet at 127.0.0.1:9" in joined.stderr.readline()
        time.sleep(0.2)
        joined.terminate()
        joined.stderr.read()  # to its end: nothing that inherited it is left
        assert joined.wait(60) == 128 + signal.SIGTERM
