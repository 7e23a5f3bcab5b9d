"""GPUs are shared out: laws over every small cluster, and the ready settings."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from full_runs.configs.placement import Gpu, Placement, placed
from full_runs.configs.ready import READY
from full_runs.configs.ready_gpus import qwen3_8b, qwen3_30b_a3b

ON_GPUS = [name for name in sorted(READY) if READY[name]().gpus]


def all_of(placement: Placement) -> list[Gpu]:
    return [*placement.ranks, *itertools.chain.from_iterable(placement.engines)]


@given(
    a_node=st.integers(1, 8),
    trainer_nodes=st.integers(1, 4),
    engines=st.integers(1, 12),
    tensor_parallel=st.integers(1, 8),
    gpus_per_node=st.integers(1, 8),
)
def test_gpus_are_disjoint_on_nodes_that_have_them_and_an_engines_are_together(
    a_node: int, trainer_nodes: int, engines: int, tensor_parallel: int, gpus_per_node: int
) -> None:
    assume(a_node <= gpus_per_node)
    ranks = a_node * trainer_nodes
    wanted = ranks + engines * tensor_parallel
    try:
        placement = placed(
            ranks, engines, trainer_nodes=trainer_nodes, tensor_parallel=tensor_parallel,
            gpus_per_node=gpus_per_node, shared=False,
        )  # fmt: skip
    except ValueError:
        # First fit fails for lack of whole places alone, never where engines of one GPU would fit.
        assert tensor_parallel > 1
        return
    gpus = all_of(placement)
    assert len(set(gpus)) == len(gpus) == wanted
    nodes = max(trainer_nodes, -(-wanted // gpus_per_node))
    assert all(node < nodes and number < gpus_per_node for node, number in gpus)
    for own in placement.engines:
        assert len({node for node, _ in own}) == 1
        assert len(own) == tensor_parallel
    assert all(placement.of_trainer(node) == tuple(range(a_node)) for node in range(trainer_nodes))


def test_nodes_that_are_full_are_covered() -> None:
    placement = qwen3_30b_a3b().placement()
    assert sorted(all_of(placement)) == [(node, number) for node in range(4) for number in range(8)]
    assert placement.elsewhere() == (0, 1, 2, 3)


def test_one_node_by_hand() -> None:
    placement = qwen3_8b().placement()
    assert placement.of_trainer(0) == (0, 1, 2, 3, 4, 5)
    assert placement.engines == (((0, 6),), ((0, 7),))
    assert placement.elsewhere() == ()


def test_one_gpu_is_shared_and_no_other_is() -> None:
    shared = READY["qwen3-0.6b-1gpu"]().placement()
    assert shared.engines == (shared.ranks,) == (((0, 0),),)


@pytest.mark.parametrize("name", ON_GPUS)
def test_ready_settings_use_as_many_gpus_as_they_ask_for(name: str) -> None:
    config = READY[name]()
    assert len(set(all_of(config.placement()))) == config.gpus


def test_what_finds_no_room_is_refused_with_its_numbers() -> None:
    with pytest.raises(ValueError, match=r"engine 1 of engines \(2\) finds no 5 GPUs .* 2 nodes of 8"):
        qwen3_8b(ranks=6, engines=2, tensor_parallel=5, gpus=16)
    with pytest.raises(ValueError, match=r"ranks \(16\) are more than trainer_nodes \(1\) \* gpus_per_node"):
        qwen3_8b(ranks=16, gpus=18)
