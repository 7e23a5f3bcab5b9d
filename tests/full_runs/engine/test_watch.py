"""What an engine's process holds beside what it was given: one number that is off by its last bit is named.

The engine here is a module with vLLM's names. Its packed matrices are transposed copies, so that no digest of
parameters sees them; what vLLM itself packs is in `test_real_packed`.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional

from full_runs.engine import packed
from full_runs.engine.layout import Process, as_engine, kept
from full_runs.engine.watch import Watch, compared

HEAD = 4
LAYER = "model.layers.0."


def checkpoint(*, tied=True):
    draws = torch.Generator().manual_seed(0)
    shapes = {
        "model.embed_tokens.weight": (70, 12),
        LAYER + "self_attn.v_proj.weight": (2 * HEAD, 12),
        LAYER + "self_attn.q_proj.weight": (4 * HEAD, 12),
        LAYER + "self_attn.k_proj.weight": (2 * HEAD, 12),
        LAYER + "self_attn.q_norm.weight": (HEAD,),
        LAYER + "self_attn.o_proj.weight": (12, 4 * HEAD),
        LAYER + "mlp.gate_proj.weight": (20, 12),
        LAYER + "mlp.up_proj.weight": (20, 12),
        LAYER + "mlp.down_proj.weight": (12, 20),
        "model.norm.weight": (12,),
    } | ({} if tied else {"lm_head.weight": (70, 12)})
    return {name: torch.randn(shape, generator=draws) for name, shape in shapes.items()}


def engine(tensors, dtype, *, packs, tied=True, process=None):
    """A module that holds them as vLLM does; `packs` says which modules multiply with copies."""
    process = process or Process()
    own = {name: kept(name, tensor, process).to(dtype) for name, tensor in tensors.items()}
    held = as_engine(own) if process.size == 1 else fused(own)
    model = nn.Module()
    for name, numbers in held.items():
        place = model
        *path, last = name.split(".")
        for word in path:
            if not hasattr(place, word):
                place.add_module(word, nn.Module())
            place = getattr(place, word)
        place.register_parameter(last, nn.Parameter(numbers.clone(), requires_grad=False))
    if tied:
        model.lm_head = nn.Module()
        model.lm_head.weight = model.model.embed_tokens.weight
    for name, module in list(model.named_modules()):
        if name.rpartition(".")[2] in packs:
            pack(module, keep=name == "lm_head")
    return model


def fused(own):
    """`as_engine` without rows behind embeddings, for slices that have none."""
    embeddings = {name: tensor for name, tensor in own.items() if "embed" in name}
    rest = {name: tensor for name, tensor in own.items() if name not in embeddings}
    rows = {name: functional.pad(tensor, (0, 0, 0, 64 - len(tensor))) for name, tensor in embeddings.items()}
    return rows | as_engine(rest)


def pack(module, *, keep):
    copy = module.weight.detach().T.contiguous()
    module.cpu_linear = lambda x, _weight, _bias, copy=copy: x @ copy
    module.copy = copy
    if not keep:
        module.weight = nn.Parameter(torch.empty(0, dtype=copy.dtype), requires_grad=False)


PROJECTIONS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")


def watched(model, tensors, dtype, process=None):
    copies = frozenset(name for name, _, _ in packed.packed(model))
    watch = Watch(dtype, process or Process(), copies)
    assert list(watch.passing(tensors.items())) == list(tensors.items())
    return watch


def off_by_one_bit(numbers, *place):
    whole = {torch.float32: torch.int32, torch.bfloat16: torch.int16}[numbers.dtype]
    numbers.view(whole)[place] ^= 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("packs", [(), PROJECTIONS, (*PROJECTIONS, "lm_head")])
@pytest.mark.parametrize("tied", [True, False])
def test_an_engine_that_holds_what_it_was_given_is_right_in_every_tensor(dtype, packs, tied):
    tensors = checkpoint(tied=tied)
    model = engine(tensors, dtype, packs=packs, tied=tied)
    same, wrong = compared(model, watched(model, tensors, dtype))
    assert wrong == []
    assert same == len(tensors) + ("lm_head" in packs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("module", "place", "said"),
    [
        (LAYER + "self_attn.qkv_proj", (3, 15), LAYER + "self_attn.q_proj.weight"),
        (LAYER + "self_attn.qkv_proj", (11, 16), LAYER + "self_attn.k_proj.weight"),
        (LAYER + "self_attn.qkv_proj", (0, 31), LAYER + "self_attn.v_proj.weight"),
        (LAYER + "self_attn.o_proj", (15, 0), LAYER + "self_attn.o_proj.weight"),
        (LAYER + "mlp.gate_up_proj", (5, 20), LAYER + "mlp.up_proj.weight"),
        (LAYER + "mlp.down_proj", (19, 11), LAYER + "mlp.down_proj.weight"),
        ("lm_head", (0, 69), "model.embed_tokens.weight (as lm_head)"),
        ("lm_head", (4, 100), "model.embed_tokens.weight (as lm_head)"),
    ],
)
def test_one_bit_of_a_packed_matrix_is_found_and_named(monkeypatch, dtype, module, place, said):
    """Whether columns come all at once or one by one; a row behind the vocabulary, too."""
    tensors = checkpoint()
    model = engine(tensors, dtype, packs=(*PROJECTIONS, "lm_head"))
    watch = watched(model, tensors, dtype)
    copy = model.get_submodule(module).copy
    if place[1] < 70:
        off_by_one_bit(copy, *place)
    else:
        copy[place] = 2.0
    for numbers_at_once in (2**23, 1):
        monkeypatch.setattr(packed, "NUMBERS_AT_ONCE", numbers_at_once)
        assert compared(model, watch) == (len(tensors), [said])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_bit_of_a_matrix_that_is_not_packed_is_found_and_named(dtype):
    tensors = checkpoint()
    model = engine(tensors, dtype, packs=())
    watch = watched(model, tensors, dtype)
    off_by_one_bit(model.get_parameter(LAYER + "self_attn.qkv_proj.weight"), 16, 0)
    off_by_one_bit(model.get_parameter("model.norm.weight"), 2)
    assert compared(model, watch)[1] == [LAYER + "self_attn.k_proj.weight", "model.norm.weight"]


def test_a_tied_head_that_was_packed_before_its_weights_came_is_found():
    """What vLLM 0.32 does on a CPU: embeddings are the new ones, and so is every digest of parameters."""
    tensors, old = checkpoint(), checkpoint()
    old["model.embed_tokens.weight"] = old["model.embed_tokens.weight"] + 1
    model = engine(old, torch.float32, packs=("lm_head",))
    watch = watched(model, tensors, torch.float32)
    with torch.no_grad():
        model.model.embed_tokens.weight[:70] = tensors["model.embed_tokens.weight"]
    assert compared(model, watch)[1] == ["model.embed_tokens.weight (as lm_head)"]


def test_what_nobody_sent_and_what_has_no_place_are_named():
    tensors = checkpoint()
    model = engine(tensors, torch.float32, packs=PROJECTIONS)
    sent = {name: tensor for name, tensor in tensors.items() if "o_proj" not in name}
    del sent["model.norm.weight"]
    watch = watched(model, sent | {"model.other.weight": torch.ones(2)}, torch.float32)
    assert compared(model, watch).wrong == [
        LAYER + "self_attn.o_proj.weight (nobody sent it)",
        "model.norm.weight (nobody sent it)",
        "model.other.weight (it has no place)",
    ]


@pytest.mark.parametrize("packs", [(), PROJECTIONS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_of_two_processes_holds_its_slices_and_not_the_others(packs, dtype):
    tensors = checkpoint()
    ranks = [Process(rank, 2, HEAD) for rank in range(2)]
    models = [engine(tensors, dtype, packs=packs, process=process) for process in ranks]
    for rank in range(2):
        watch = watched(models[rank], tensors, dtype, ranks[rank])
        assert compared(models[rank], watch) == (len(tensors), [])
        wrong = compared(models[1 - rank], watch).wrong
        assert wrong == sorted(name for name in tensors if "norm" not in name)


def test_the_sign_of_a_zero_and_less_than_a_normal_number_do_not_count_where_they_cannot_be_seen():
    tensors = checkpoint()
    name = LAYER + "self_attn.o_proj.weight"
    tensors[name][0, :2] = torch.tensor([-0.0, 1e-40])
    model = engine(tensors, torch.float32, packs=PROJECTIONS)
    copy = model.get_submodule(name.removesuffix(".weight")).copy
    copy[:2, 0] = 0.0  # as a processor multiplies that takes such numbers for zero
    watch = watched(model, tensors, torch.float32)
    assert compared(model, watch).wrong == []
    copy[1, 0] = 2e-38
    assert compared(model, watch).wrong == [name]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_number_that_is_none_makes_no_matrix_right(bad):
    tensors = checkpoint()
    model = engine(tensors, torch.float32, packs=PROJECTIONS)
    model.get_submodule(LAYER + "self_attn.o_proj").copy[1, 1] = bad
    assert compared(model, watched(model, tensors, torch.float32)).wrong == [
        LAYER + "self_attn.o_proj.weight"
    ]


def test_a_module_that_multiplies_with_the_matrix_it_is_given_has_no_copy():
    """Nothing is read back then. Half-way through a push that failed there is no matrix: it may have one."""
    model = engine(checkpoint(), torch.bfloat16, packs=())
    for module in (model.lm_head, model.get_submodule(LAYER + "mlp.down_proj")):
        module.cpu_linear = functional.linear
    assert list(packed.packed(model)) == []
    model.model.norm.to("meta")
    model.get_submodule(LAYER + "mlp.down_proj").to("meta")
    assert [name for name, _, _ in packed.packed(model)] == [LAYER + "mlp.down_proj.weight"]


def test_experts_of_a_mixture_are_not_looked_for():
    tensors = checkpoint()
    model = engine(tensors, torch.float32, packs=())
    model.model.experts = nn.Module()
    model.model.experts.w13_weight = nn.Parameter(torch.ones(2, 2, 2))
    sent = tensors | {"model.experts.0.gate_proj.weight": torch.ones(2, 2)}
    watch = watched(model, sent, torch.float32)
    assert compared(model, watch) == (len(tensors), [])
    assert watch.digests.keys() == sent.keys()
