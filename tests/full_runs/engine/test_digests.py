"""Names and bytes of weights, compared."""

import pytest
import torch

from full_runs.engine import digests
from full_runs.engine.layout import as_engine, digest

LAYER = "model.layers.0."


def checkpoint() -> dict[str, torch.Tensor]:
    named = torch.arange(6.0).reshape(2, 3)
    return {
        "model.embed_tokens.weight": named,
        LAYER + "self_attn.v_proj.weight": named + 30,
        LAYER + "self_attn.q_proj.weight": named + 10,
        LAYER + "self_attn.k_proj.weight": named + 20,
        LAYER + "mlp.up_proj.weight": named + 50,
        LAYER + "mlp.gate_proj.weight": named + 40,
    }


def test_an_engine_keeps_queries_keys_and_values_in_this_order():
    held = as_engine(checkpoint())
    assert list(held) == [
        "model.embed_tokens.weight",
        LAYER + "self_attn.qkv_proj.weight",
        LAYER + "mlp.gate_up_proj.weight",
    ]
    assert held[LAYER + "self_attn.qkv_proj.weight"][:, 0].tolist() == [10, 13, 20, 23, 30, 33]
    assert held[LAYER + "mlp.gate_up_proj.weight"][:, 0].tolist() == [40, 43, 50, 53]


def test_one_bit_makes_another_digest_and_the_layout_in_memory_does_not():
    tensor = torch.arange(6.0).reshape(2, 3)
    assert digest(tensor.T.contiguous().T) == digest(tensor)
    changed = tensor.clone()
    changed[1, 2] += 2**-20
    assert digest(changed) != digest(tensor)
    assert digest(tensor.bfloat16()) != digest(tensor)


SHAPES = {"a": (2, 3), "b": (4,)}


@pytest.mark.parametrize(
    ("pushed", "said"),
    [
        ({"a": (2, 3)}, "missing: b"),
        ({**SHAPES, "c": (1,), "d": (1,)}, "not of this model: c, d"),
        ({"a": (3, 2), "b": (4,)}, r"a has shape \(3, 2\), the model's \(2, 3\)"),
        ({"x": (1,)}, "missing: a, b; not of this model: x"),
    ],
)
def test_a_wrong_tensor_is_named(pushed, said):
    with pytest.raises(ValueError, match=said):
        digests.check_inventory(pushed, SHAPES)
    digests.check_inventory(SHAPES, SHAPES)


def test_what_was_taken_is_compared_by_name():
    digests.check_taken({"a": "1", "b": "2"}, {"a": "1", "b": "2"}, "here")
    with pytest.raises(ValueError, match=r"here took other weights than were sent: b, c$"):
        digests.check_taken({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}, "here")


def test_what_an_engine_has_packed_away_is_not_compared():
    held = {"dp0:pp0:pcp0:tp0:a": "1", "dp0:pp0:pcp0:tp0:b": digests.PACKED}
    assert digests.check_held(held, {"a": "1", "b": "2"}, "here") == 1
    with pytest.raises(ValueError, match=r"here holds other weights than were sent: a$"):
        digests.check_held(held, {"a": "9", "b": "2"}, "here")


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_digests_of_tensors_as_they_pass_are_those_of_the_engines_own_tensors(dtype):
    """The oracle lays all of them out at once; queries come before their turn, and after it."""
    named = checkpoint()
    wanted = {name: digest(tensor.to(dtype or tensor.dtype)) for name, tensor in as_engine(named).items()}
    for order in (list(named), list(reversed(named)), sorted(named)):
        sums = digests.Sums(dtype)
        for name in order:
            sums.add(name, named[name])
        assert sums.held == wanted
        assert sums.sent == {name: digest(tensor) for name, tensor in named.items()}


def test_a_matrix_of_which_a_part_is_missing_has_no_digest():
    sums = digests.Sums()
    for name, tensor in checkpoint().items():
        if "q_proj" not in name:
            sums.add(name, tensor)
    assert LAYER + "self_attn.qkv_proj.weight" not in sums.held
    assert LAYER + "mlp.gate_up_proj.weight" in sums.held
