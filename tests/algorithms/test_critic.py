import math

import pytest
import torch
from torch import nn

from algorithms.aggregate import count_tokens
from algorithms.critic import CriticRecipe, attention_modules, fit, freeze, nothing, value_loss
from tests.algorithms.make import T64, batch, rows


class TinyCritic(nn.Module):
    """An attention-like part, a norm beside it and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn = nn.Linear(3, 3, dtype=T64)
        self.post_attention_layernorm = nn.LayerNorm(3, dtype=T64)
        self.head = nn.Linear(3, 1, dtype=T64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.post_attention_layernorm(self.self_attn(x))).squeeze(-1)


@pytest.mark.parametrize(
    ("name", "frozen"),
    [
        ("model.layers.0.self_attn.q_proj.weight", True),
        ("transformer.h.3.attn.c_attn.bias", True),
        ("encoder.layer.1.attention.output.dense.weight", True),
        ("layers.0.linear_attn.A_log", True),
        ("model.layers.0.post_attention_layernorm.weight", False),
        ("layers.0.attention_norm.weight", False),
        ("model.layers.0.mlp.up_proj.weight", False),
        ("model.embed_tokens.weight", False),
        ("head.weight", False),
    ],
)
def test_attention_is_frozen_and_the_norms_beside_it_train(name: str, frozen: bool):
    assert attention_modules(name) is frozen


def test_a40_the_critic_trains_k_times_where_it_may():
    torch.manual_seed(0)
    critic, recipe = TinyCritic(), CriticRecipe()
    assert freeze(critic, recipe.frozen) == ("self_attn.weight", "self_attn.bias")
    before = {name: p.detach().clone() for name, p in critic.named_parameters()}
    inputs = torch.randn(2, 4, 3, dtype=T64)
    mask = torch.tensor([[1, 1, 0, 1], [1, 0, 0, 0]]).bool()
    optimizer = torch.optim.SGD((p for p in critic.parameters() if p.requires_grad), lr=0.1)
    losses: list[float] = []

    def update() -> None:
        loss = value_loss(critic(inputs), torch.ones(2, 4, dtype=T64), mask, count_tokens(mask))
        assert loss.requires_grad
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    fit(recipe, lambda: critic(inputs), update)
    assert len(losses) == 2
    assert losses[1] < losses[0]
    for name, parameter in critic.named_parameters():
        assert torch.equal(parameter, before[name]) is attention_modules(name)


@pytest.mark.parametrize(("when", "advantage"), [("before", 0.75), ("after", 0.1875)])
def test_a55_values_from_before_or_after_the_fit(when: str, advantage: float):
    # R = 1, V = .25; each update closes half the gap, twice: V = .8125.
    value = torch.tensor([[0.25]], dtype=T64)

    def update() -> None:
        value.add_(0.5 * (1.0 - value))

    entering = fit(CriticRecipe(value_when=when), lambda: value.clone(), update)
    assert (1.0 - entering).item() == advantage


def test_value_loss_is_the_plain_squared_error_over_action_tokens():
    values = rows([1.0, math.nan, 3.0]).requires_grad_()
    mask = torch.tensor([[True, False, True]])
    loss = value_loss(values, rows([0.0, math.nan, 1.0]), mask, count_tokens(mask))
    assert loss.item() == 2.5  # (1 + 4) / 2
    loss.backward()
    assert values.grad is not None
    assert values.grad.tolist() == [[1.0, 0.0, 2.0]]


def test_value_loss_of_micro_batches_adds_up():
    values, targets = torch.randn(2, 5, 3, dtype=T64, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(3) < torch.tensor([1, 3, 2, 3, 1])[:, None]
    total = count_tokens(mask)
    parts = [value_loss(values[s], targets[s], mask[s], total) for s in (slice(0, 2), slice(2, 5))]
    torch.testing.assert_close(sum(parts), value_loss(values, targets, mask, total))


def test_value_loss_without_tokens_is_zero():
    values = torch.full((1, 2), math.nan, requires_grad=True)
    nothing_masked_in = torch.zeros(1, 2, dtype=torch.bool)
    loss = value_loss(values, torch.zeros(1, 2), nothing_masked_in, count_tokens(nothing_masked_in))
    loss.backward()
    assert loss.item() == 0.0
    assert values.grad is not None
    assert values.grad.tolist() == [[0.0, 0.0]]


def test_no_gradient_flows_into_the_target():
    targets = torch.ones(1, 1, requires_grad=True)
    values = torch.zeros(1, 1, requires_grad=True)
    value_loss(values, targets, torch.ones(1, 1, dtype=torch.bool), torch.tensor(1)).backward()
    assert targets.grad is None


def test_the_two_readings_of_warm_up():
    resting = CriticRecipe()
    assert [resting.policy_trains(u) for u in (0, 9, 10)] == [False, False, True]
    assert resting.learning_rate_factor(0) == 5.0
    rising = CriticRecipe(critic_only_updates=0, learning_rate_warmup_updates=10)
    assert rising.policy_trains(0)
    assert [rising.learning_rate_factor(u) for u in (0, 4, 9, 10)] == [0.5, 2.5, 5.0, 5.0]


def test_targets_follow_the_recipe():
    b = batch([[1, 1, 1]], rewards=rows([0.0, 0.0, 8.0]), values=rows([1.0, 1.0, 1.0]))
    recipe = CriticRecipe(gamma=0.5, lambda_critic=0.5)
    assert recipe.targets(b).tolist() == [[0.8125, 2.25, 8.0]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("updates_per_policy_update", 0),
        ("learning_rate_ratio", 0.0),
        ("critic_only_updates", -1),
        ("learning_rate_warmup_updates", -1),
        ("lambda_critic", 1.5),
        ("gamma", -0.1),
        ("value_when", "during"),
    ],
)
def test_a_bad_recipe_is_refused_by_name(name: str, value: object):
    with pytest.raises((ValueError, TypeError), match=name):
        CriticRecipe(**{name: value})  # type: ignore[arg-type]


def test_a_critic_that_cannot_train_is_refused():
    with pytest.raises(ValueError, match="covers all 6 parameters"):
        freeze(TinyCritic(), lambda name: True)  # noqa: ARG005
    assert freeze(TinyCritic(), nothing) == ()
