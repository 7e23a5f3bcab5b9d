"""What a transformers model says, however its rows are put together."""

from pathlib import Path

import pytest
import torch

from algorithms.critic import CriticRecipe, freeze
from full_runs.trainer.layout import PACKED, PADDED
from full_runs.trainer.model import CausalCritic, CausalPolicy, load, outlined
from tests.full_runs.trainer import tiny

pytest.importorskip("transformers", reason=tiny.WHY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return tiny.qwen(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def lesson():
    return tiny.lesson(0, truncated=True)


def test_log_probs_are_those_of_each_row_alone(folder, lesson):
    said = tiny.policy(folder).log_probs(lesson.prompts, lesson.batch.token_ids)
    model = load(folder)
    for row, (prompt, tokens) in enumerate(zip(lesson.prompts, lesson.batch.token_ids, strict=True)):
        prompt, tokens = prompt[prompt >= 0], tokens[tokens >= 0]
        logits = model(input_ids=torch.cat([prompt, tokens])[None]).logits[0]
        alone = logits[len(prompt) - 1 : -1].log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        torch.testing.assert_close(said[row, : len(tokens)], alone, atol=1e-6, rtol=0)
        assert not said[row, len(tokens) :].any()


@pytest.mark.parametrize("at_once", [1, 7, 10**6])
@pytest.mark.parametrize("layout", [PADDED, PACKED], ids=["padded", "packed"])
def test_pieces_and_packing_change_neither_value_nor_gradient(folder, lesson, layout, at_once):
    def differentiated(policy):
        said = policy.log_probs(lesson.prompts, lesson.batch.token_ids)
        said.where(lesson.batch.action_mask, 0.0).square().sum().backward()
        return said.detach(), {name: p.grad for name, p in policy.named_parameters()}

    plain = differentiated(tiny.policy(folder))
    other = differentiated(
        CausalPolicy(load(folder), layout=layout, logits_at_once=at_once * tiny.VOCABULARY)
    )
    torch.testing.assert_close(other[0], plain[0], atol=1e-6, rtol=0)
    scale = max(float(g.abs().max()) for g in plain[1].values())
    assert tiny.apart(other[1], plain[1]) < 1e-6 * scale


def test_temperature_is_each_rows_own(folder, lesson):
    policy = tiny.policy(folder)
    tokens = lesson.batch.token_ids
    temperature = torch.linspace(0.5, 2.0, len(tokens))
    said = policy.log_probs(lesson.prompts, tokens, temperature)
    # Dividing all logits is what dividing the head does: row by row, with a head of its own.
    for row, tau in enumerate(temperature):
        cooled = tiny.policy(folder)
        cooled.model.config.tie_word_embeddings = False
        cooled.model.lm_head.weight = torch.nn.Parameter(cooled.model.lm_head.weight.detach() / tau)
        alone = cooled.log_probs(lesson.prompts[row : row + 1], tokens[row : row + 1])
        torch.testing.assert_close(said[row : row + 1], alone, atol=2e-6, rtol=0)


def test_a_value_knows_what_came_before_its_token_and_nothing_after(folder, lesson):
    critic = CausalCritic(tiny.policy(folder))
    torch.nn.init.normal_(critic.head.weight, generator=torch.Generator().manual_seed(0))
    tokens = lesson.batch.token_ids
    values = critic.values(lesson.prompts, tokens)
    changed = tokens.clone()
    changed[:, 1] = (changed[:, 1] + 1) % tiny.VOCABULARY
    moved = (critic.values(lesson.prompts, changed) - values).abs() > 1e-6
    assert not moved[:, :2].any()
    assert moved[:, 2].all()


def test_behind_a_response_stands_the_value_of_the_state_after_it(folder, lesson):
    critic = CausalCritic(tiny.policy(folder))
    torch.nn.init.normal_(critic.head.weight, generator=torch.Generator().manual_seed(0))
    tokens = torch.nn.functional.pad(lesson.batch.token_ids, (0, 1), value=-1)
    values = critic.values(lesson.prompts, tokens)
    for row in range(len(tokens)):
        length = int((tokens[row] >= 0).sum())
        # One token more, whatever it is: the value before it is of the state after all others.
        longer = torch.cat([tokens[row : row + 1, :length], torch.tensor([[0]])], dim=1)
        after = critic.values(lesson.prompts[row : row + 1], longer)[0, -1]
        torch.testing.assert_close(values[row, length:], after.expand(10 - length), atol=1e-5, rtol=0)


def test_a_critic_starts_at_zero_and_its_attention_is_frozen(folder, lesson):
    critic = CausalCritic(tiny.policy(folder))
    assert not critic.values(lesson.prompts, lesson.batch.token_ids).any()
    frozen = freeze(critic, CriticRecipe().frozen)
    # q, k, v, o and the norms of q and k, in two layers.
    assert len(frozen) == 12
    assert all(".self_attn." in name for name in frozen)
    trained = {name for name, p in critic.named_parameters() if p.requires_grad}
    assert {"head.weight", "head.bias", "body.embed_tokens.weight", "body.norm.weight"} <= trained
    assert "body.layers.0.post_attention_layernorm.weight" in trained


def test_an_outline_has_the_same_names_and_shapes_and_no_numbers(folder):
    outline, whole = CausalPolicy(outlined(folder)), tiny.policy(folder)
    shapes = [{name: p.shape for name, p in each.named_parameters()} for each in (outline, whole)]
    assert shapes[0] == shapes[1]
    assert all(p.is_meta for p in outline.parameters())


def test_nothing_is_dropped_out(tmp_path, lesson):
    folder = tiny.qwen(tmp_path, attention_dropout=0.5)
    policy = CausalPolicy(load(folder, checkpointed=True))
    twice = [policy.log_probs(lesson.prompts, lesson.batch.token_ids) for _ in range(2)]
    assert torch.equal(*twice)


def test_weights_that_would_have_to_be_unpickled_are_refused(folder, tmp_path):
    state = load(folder).state_dict()
    torch.save(state, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text((Path(folder) / "config.json").read_text())
    with pytest.raises(OSError, match="safetensors"):
        load(str(tmp_path))


def test_a_row_of_padding_is_as_good_as_none(folder, lesson):
    tokens = torch.cat([lesson.batch.token_ids, torch.full((len(lesson.prompts), 3), -1)], dim=1)
    policy = tiny.policy(folder)
    wider = policy.log_probs(lesson.prompts, tokens)
    assert torch.equal(wider[:, :9], policy.log_probs(lesson.prompts, lesson.batch.token_ids))
