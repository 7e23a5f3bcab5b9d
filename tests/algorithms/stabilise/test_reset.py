"""A reset optimizer steps as a fresh one does."""

import copy

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from algorithms.stabilise.reset import emptied

MAKERS = {
    "adam": lambda p: Adam(p, lr=0.1),
    "adamw": lambda p: AdamW(p, lr=0.1, weight_decay=0.1, amsgrad=True),
    "momentum": lambda p: SGD(p, lr=0.1, momentum=0.9),
    "rmsprop": lambda p: RMSprop(p, lr=0.1),
}


def trained(optimizer: Optimizer, weights: Tensor, updates: int) -> None:
    for update in range(updates):
        weights.grad = torch.tensor([1.0, -2.0, 0.5]) * (1 + update)
        optimizer.step()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_next_steps_are_those_of_a_fresh_optimizer(make):
    weights = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    optimizer = make([weights])
    trained(optimizer, weights, 5)
    twin = weights.detach().clone().requires_grad_()
    without = weights.detach().clone().requires_grad_()
    remembers = make([without])
    remembers.load_state_dict(optimizer.state_dict())
    optimizer.load_state_dict(emptied(optimizer.state_dict()))
    trained(optimizer, weights, 3)
    trained(make([twin]), twin, 3)
    trained(remembers, without, 3)
    assert torch.equal(weights, twin)
    assert not torch.equal(weights, without)


def test_the_learning_rate_of_a_schedule_stays():
    weights = torch.ones(3, requires_grad=True)
    optimizer = Adam([weights], lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    trained(optimizer, weights, 1)
    schedule.step()
    optimizer.load_state_dict(emptied(optimizer.state_dict()))
    trained(optimizer, weights, 1)
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.025


def test_adams_first_step_after_a_reset_is_the_learning_rate_whatever_the_gradient():
    weights = torch.zeros(3, requires_grad=True)
    optimizer = Adam([weights], lr=0.01, eps=0.0)
    trained(optimizer, weights, 4)
    optimizer.load_state_dict(emptied(optimizer.state_dict()))
    before = weights.detach().clone()
    weights.grad = torch.tensor([1e-6, -1.0, 1e6])
    optimizer.step()
    torch.testing.assert_close(weights - before, torch.tensor([-0.01, 0.01, -0.01]))


def test_nothing_that_was_given_changes():
    weights = torch.ones(3, requires_grad=True)
    optimizer = Adam([weights], lr=0.1)
    trained(optimizer, weights, 2)
    state = optimizer.state_dict()
    wanted = copy.deepcopy(state)
    cleared = emptied(state)
    cleared["param_groups"][0]["lr"] = 9.0
    assert cleared["state"] == {}
    assert state["param_groups"] == wanted["param_groups"]
    assert torch.equal(state["state"][0]["exp_avg"], wanted["state"][0]["exp_avg"])


def test_other_mappings_are_refused():
    with pytest.raises(ValueError, match=r"state and param_groups, got \['weight'\]"):
        emptied({"weight": 1})
