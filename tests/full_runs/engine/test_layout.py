"""Which slice of a tensor each process of an engine keeps."""

import pytest
import torch

from full_runs.engine.layout import Process, kept, part, slice_of

LAYER = "model.layers.3."
HEAD = 8
# A Qwen3 of 4 heads and 2 of keys and values, with a vocabulary that is not round.
SHAPES = {
    "model.embed_tokens.weight": (70, 16),
    "lm_head.weight": (70, 16),
    LAYER + "self_attn.q_proj.weight": (4 * HEAD, 16),
    LAYER + "self_attn.k_proj.weight": (2 * HEAD, 16),
    LAYER + "self_attn.v_proj.weight": (2 * HEAD, 16),
    LAYER + "self_attn.q_proj.bias": (4 * HEAD,),
    LAYER + "self_attn.o_proj.weight": (16, 4 * HEAD),
    LAYER + "mlp.gate_proj.weight": (24, 16),
    LAYER + "mlp.up_proj.weight": (24, 16),
    LAYER + "mlp.down_proj.weight": (16, 24),
}
WHOLE = {
    LAYER + "self_attn.q_norm.weight": (HEAD,),
    LAYER + "input_layernorm.weight": (16,),
    LAYER + "mlp.gate.weight": (6, 16),
    "model.norm.weight": (16,),
}


def numbers(shape):
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("count", [1, 2])
def test_slices_of_all_processes_are_the_tensor(name, count):
    tensor = numbers(SHAPES[name])
    own = [kept(name, tensor, Process(rank, count, HEAD)) for rank in range(count)]
    dim = slice_of(name, SHAPES[name], Process(0, count, HEAD)).dim
    assert torch.equal(torch.cat(own, dim=dim), tensor)
    assert (dim == 1) is name.endswith(("o_proj.weight", "down_proj.weight"))


@pytest.mark.parametrize("name", WHOLE)
def test_norms_and_routers_are_kept_whole(name):
    tensor = numbers(WHOLE[name])
    assert all(kept(name, tensor, Process(rank, 2, HEAD)) is tensor for rank in range(2))


def test_nothing_is_copied_where_there_is_one_process():
    for name, shape in (SHAPES | WHOLE).items():
        tensor = numbers(shape)
        assert kept(name, tensor, Process()) is tensor


def test_embeddings_are_shared_out_with_the_rows_behind_them():
    """70 rows become 128, so the first of two processes has 64 and the second 6; of four, the last none."""
    rows = [slice_of("lm_head.weight", (70, 16), Process(rank, 2))[1:] for rank in range(2)]
    assert rows == [(0, 64), (64, 70)]
    rows = [slice_of("lm_head.weight", (70, 16), Process(rank, 4))[1:] for rank in range(4)]
    assert rows == [(0, 32), (32, 64), (64, 70), (70, 70)]


def test_a_head_of_keys_is_in_several_processes_if_there_are_more_of_those():
    """Two heads of keys for four processes: the first two have the first one."""
    name = LAYER + "self_attn.k_proj.weight"
    rows = [slice_of(name, SHAPES[name], Process(rank, 4, HEAD))[1:] for rank in range(4)]
    assert rows == [(0, 8), (0, 8), (8, 16), (8, 16)]
    name = LAYER + "self_attn.q_proj.weight"
    assert [slice_of(name, SHAPES[name], Process(rank, 4, HEAD)).start for rank in range(4)] == [0, 8, 16, 24]


def test_a_part_knows_its_whole_and_a_name_that_is_alone_stays():
    own = part(LAYER + "mlp.up_proj.weight")
    assert own == (
        LAYER + "mlp.gate_up_proj.weight",
        (LAYER + "mlp.gate_proj.weight", LAYER + "mlp.up_proj.weight"),
        1,
    )
    assert part("model.norm.weight") == ("model.norm.weight", ("model.norm.weight",), 0)
