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


def test_digests_of_a_folder_are_those_of_its_tensors(tmp_path):
    save = pytest.importorskip("safetensors.torch").save_file
    named = checkpoint()
    first = dict(list(named.items())[:2])
    save(first, tmp_path / "model-00001-of-00002.safetensors")
    save(
        {name: named[name] for name in named.keys() - first.keys()},
        tmp_path / "model-00002-of-00002.safetensors",
    )
    assert digests.digests_of(tmp_path) == {name: digest(tensor) for name, tensor in named.items()}
