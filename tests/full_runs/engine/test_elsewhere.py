"""Is somebody else's engine the right one? Nothing is started here."""

from __future__ import annotations

import pytest

pytest.importorskip("aiohttp", reason="the engine's client is not installed here")

from full_runs.engine.elsewhere import check_model, differing_settings
from full_runs.engine.launch import ServerOptions

OPTIONS = ServerOptions(max_model_tokens=64, dtype="bfloat16")
RIGHT = {
    "logprobs_mode": "processed_logprobs",
    "dtype": "bfloat16",
    "tensor_parallel": "1",
    "prefix_caching": "False",
}
WANTED = {
    "model.embed_tokens.weight": (50, 8),
    "model.layers.0.self_attn.q_proj.weight": (16, 8),
    "model.layers.0.self_attn.k_proj.weight": (8, 8),
    "model.layers.0.self_attn.v_proj.weight": (8, 8),
}
HELD = {"model.embed_tokens.weight": (64, 8), "model.layers.0.self_attn.qkv_proj.weight": (32, 8)}


def test_one_that_was_started_as_here_will_do() -> None:
    assert differing_settings(RIGHT, 64, OPTIONS) == []


@pytest.mark.parametrize(
    ("change", "room", "why"),
    [
        ({"logprobs_mode": "raw_logprobs"}, 64, "logprobs_mode is raw_logprobs, not processed_logprobs"),
        ({"dtype": "float32"}, 64, "dtype is float32, not bfloat16"),
        ({"tensor_parallel": "2"}, 64, "tensor_parallel is 2, not 1"),
        ({}, 63, "max_model_len is 63, and a rollout has up to 64 tokens"),
        ({"prefix_caching": "True"}, 64, "shares keys of equal prefixes"),
    ],
)
def test_what_is_otherwise_is_named(change: dict[str, str], room: int, why: str) -> None:
    (said,) = differing_settings(RIGHT | change, room, OPTIONS)
    assert why in said


def test_prefixes_may_be_shared_where_a_push_throws_them_away() -> None:
    shared = ServerOptions(max_model_tokens=64, dtype="bfloat16", prefix_caching=True)
    assert differing_settings(RIGHT | {"prefix_caching": "True"}, 64, shared) == []


def test_the_models_own_parameters_are_accepted_packed_ones_too() -> None:
    check_model(HELD, WANTED, where="here", whole=True)
    check_model(HELD | {"model.layers.0.self_attn.qkv_proj.weight": (0,)}, WANTED, where="here", whole=True)


def test_parts_of_matrices_are_accepted_of_one_process_among_several() -> None:
    parts = {name: (rows // 2, width) for name, (rows, width) in HELD.items()}
    check_model(parts, WANTED, where="here", whole=False)
    with pytest.raises(ValueError, match=r"embed_tokens.weight has shape \(32, 8\), not \(64, 8\)"):
        check_model(parts, WANTED, where="here", whole=True)


@pytest.mark.parametrize(
    ("held", "why"),
    [
        ({}, "it lacks model.embed_tokens.weight"),
        (HELD | {"lm_head.weight": (64, 8)}, "it has lm_head.weight"),
        (HELD | {"model.embed_tokens.weight": (128, 8)}, "shape"),
    ],
)
def test_another_model_is_refused_by_name(held: dict[str, tuple[int, ...]], why: str) -> None:
    with pytest.raises(ValueError, match=f"here holds another model: .*{why}"):
        check_model(held, WANTED, where="here", whole=True)
